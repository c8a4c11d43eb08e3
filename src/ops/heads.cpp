#include "ops/heads.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/elementwise.h"

namespace nmt {
namespace {

// Empty tensors may have no memory at all, which memcpy does not allow.
void copy(const Tensor& y, int64_t to, const Tensor& x, int64_t from, int64_t elements) {
  std::copy_n(x.at(from), x.bytes(elements), y.at(to));
}

// Copies [rows, heads, d] <-> [heads, rows, d].
void swap_heads(const Launch& l, int64_t rows, int64_t heads, int64_t d, bool split) {
  const Tensor &x = l.in[0], &y = l.out[0];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t row_first = (r * heads + h) * d, head_first = (h * rows + r) * d;
      copy(y, split ? head_first : row_first, x, split ? row_first : head_first, d);
    }
}

// [heads, queries, keys] and the three of Segments; the output is like the first.
std::vector<Spec> infer_segments(std::string_view op, std::span<const Spec> in) {
  check_activation(op, in[0]);
  check(in[0].shape.rank() == 3, "{}: {}", op, in[0].shape);
  check_segments(op, in[1], in[2], in[3]);
  return {in[0]};
}

}  // namespace

void check_begins(std::string_view op, const Spec& begin) {
  check(begin.shape.rank() == 1 && begin.shape[0] >= 1 && begin.dtype == DType::kI32, "{}: begins {} of {}", op,
        begin.shape, name_of(begin.dtype));
}

void check_segments(std::string_view op, const Spec& query_begin, const Spec& key_begin, const Spec& weight_begin) {
  check_begins(op, query_begin);
  check(key_begin == query_begin && weight_begin.shape == query_begin.shape && weight_begin.dtype == DType::kI64,
        "{}: begins {}, {} of {}, {} of {}", op, query_begin.shape, key_begin.shape, name_of(key_begin.dtype),
        weight_begin.shape, name_of(weight_begin.dtype));
}

Expr columns(Expr x, int64_t first, int64_t count) {
  return first == 0 && count == x.shape().dim(-1) ? x : x.graph().append(Columns{first, count}, {x});
}
Expr split_heads(Expr x, int heads) { return x.graph().append(SplitHeads{heads}, {x}); }
Expr merge_heads(Expr x) { return x.graph().append(MergeHeads{}, {x}); }
Expr mask_segments(Expr scores, const Segments& s, KeyMask mask) {
  return scores.graph().append(MaskSegments{mask}, {scores, s.query_begin, s.key_begin, s.weight_begin});
}
Expr dropout_segments(Expr weights, const Segments& s, float rate) {
  if (rate == 0) return weights;
  Graph& g = weights.graph();
  return g.append(DropoutSegments{rate, g.next_dropout_site()}, {weights, s.query_begin, s.key_begin, s.weight_begin});
}

std::vector<Spec> Columns::infer(std::span<const Spec> in) const {
  const int64_t width = in[0].shape.dim(-1);
  check(first >= 0 && count >= 0 && first + count <= width, "columns: {} from {} of {}", count, first, in[0].shape);
  Spec y = in[0];
  y.shape[y.shape.rank() - 1] = count;
  return {y};
}

void Columns::backward(Backprop& b) const {
  b.add(0, b.graph().append(PadColumns{first, b.input(0).shape().dim(-1)}, {b.gradient()}));
}

void Columns::cpu(const Launch& l) const {
  const int64_t width = l.in[0].shape().dim(-1);
  for (int64_t r = 0; r < l.in[0].shape().rows(); ++r) copy(l.out[0], r * count, l.in[0], r * width + first, count);
}

std::vector<Spec> PadColumns::infer(std::span<const Spec> in) const {
  Spec y = in[0];
  check(first + y.shape.dim(-1) <= width, "pad_columns: {} at {} of {}", y.shape, first, width);
  y.shape[y.shape.rank() - 1] = width;
  return {y};
}

void PadColumns::cpu(const Launch& l) const {
  const int64_t count = l.in[0].shape().dim(-1);
  std::fill_n(l.out[0].as<std::byte>(), l.out[0].spec.bytes(), std::byte{0});
  for (int64_t r = 0; r < l.out[0].shape().rows(); ++r) copy(l.out[0], r * width + first, l.in[0], r * count, count);
}

std::vector<Spec> SplitHeads::infer(std::span<const Spec> in) const {
  const Shape& x = in[0].shape;
  check(x.rank() == 2 && heads > 0 && x[1] % heads == 0, "split_heads: {} heads of {}", heads, x);
  return {{{heads, x[0], x[1] / heads}, in[0].dtype}};
}
void SplitHeads::backward(Backprop& b) const { b.add(0, merge_heads(b.gradient())); }
void SplitHeads::cpu(const Launch& l) const {
  const Shape& y = l.out[0].shape();
  swap_heads(l, y[1], y[0], y[2], true);
}

std::vector<Spec> MergeHeads::infer(std::span<const Spec> in) const {
  const Shape& x = in[0].shape;
  check(x.rank() == 3, "merge_heads: {}", x);
  return {{{x[1], x[0] * x[2]}, in[0].dtype}};
}
void MergeHeads::backward(Backprop& b) const {
  b.add(0, split_heads(b.gradient(), static_cast<int>(b.input(0).shape()[0])));
}
void MergeHeads::cpu(const Launch& l) const {
  const Shape& x = l.in[0].shape();
  swap_heads(l, x[1], x[0], x[2], false);
}

std::vector<Spec> MaskSegments::infer(std::span<const Spec> in) const { return infer_segments(kName, in); }

void MaskSegments::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const int64_t heads = y.shape()[0], queries = y.shape()[1], keys = y.shape()[2];
  const auto *q_begin = l.in[1].as<int32_t>(), *k_begin = l.in[2].as<int32_t>();
  const float low = -std::numeric_limits<float>::infinity();
  std::vector<float> row(static_cast<size_t>(keys));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t s = 0; s + 1 < l.in[1].elements(); ++s)
      for (int64_t q = q_begin[s]; q < q_begin[s + 1]; ++q) {
        const int64_t offset = (h * queries + q) * keys;
        cpu::convert(x.dtype(), x.at(offset), DType::kF32, row.data(), keys);
        const int64_t first = k_begin[s], i = q - q_begin[s];
        const int64_t begin = first + mask.first(i), end = first + mask.end(i, k_begin[s + 1] - first);
        for (int64_t k = 0; k < keys; ++k)
          if (k < begin || k >= end) row[static_cast<size_t>(k)] = low;
        cpu::convert(DType::kF32, row.data(), y.dtype(), y.at(offset), keys);
      }
}

std::vector<Spec> DropoutSegments::infer(std::span<const Spec> in) const {
  check(rate >= 0 && rate < 1, "{}: the rate {} is not in [0, 1)", kName, rate);
  return infer_segments(kName, in);
}

void DropoutSegments::backward(Backprop& b) const {
  b.add(0, b.graph().append(*this, {b.gradient(), b.input(1), b.input(2), b.input(3)}));
}

void DropoutSegments::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const int64_t heads = y.shape()[0], queries = y.shape()[1], keys = y.shape()[2];
  const int64_t sentences = l.in[1].elements() - 1;
  const auto *q_begin = l.in[1].as<int32_t>(), *k_begin = l.in[2].as<int32_t>();
  const auto* weight_begin = l.in[3].as<int64_t>();
  const auto d = dropout_of(l.runtime, rate, site);
  std::vector<float> row(static_cast<size_t>(keys));
  std::vector<uint8_t> kept(static_cast<size_t>(keys));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t s = 0; s < sentences; ++s)
      for (int64_t q = q_begin[s]; q < q_begin[s + 1]; ++q) {
        const int64_t length = k_begin[s + 1] - k_begin[s];
        const int64_t first = h * weight_begin[sentences] + weight_begin[s] + (q - q_begin[s]) * length;
        cpu::dropout_mask(d, first, first + length, kept.data());
        const int64_t offset = (h * queries + q) * keys;
        cpu::convert(x.dtype(), x.at(offset), DType::kF32, row.data(), keys);
        for (int64_t k = 0; k < keys; ++k) {
          const bool inside = k >= k_begin[s] && k < k_begin[s + 1];
          row[static_cast<size_t>(k)] *= inside && kept[static_cast<size_t>(k - k_begin[s])] != 0 ? 1 / (1 - rate) : 0;
        }
        cpu::convert(DType::kF32, row.data(), y.dtype(), y.at(offset), keys);
      }
}

}  // namespace nmt
