#include "ops/cross_entropy.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/error.h"
#include "base/math.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

// Rows whose logits' gradients exist together: they bound the working memory, and how often the weight's gradient is
// passed over.
constexpr int64_t kGradientRows = 1024;
// One task looks for the best of so many rows in so many columns, a tile of logits at a time: tile and weight stay in
// L2.
constexpr int64_t kTopRows = 256, kTopColumns = 8192, kTileRows = 64, kTileWeight = 1 << 19;

// Rows whose logits one task computes and reads again. Where the weight stays in the cache, as many as leave the logits
// there too; else enough to be worth the way of the weight from memory.
int64_t logit_rows(int64_t width, const cpu::PackedMatrix& weight) {
  constexpr int64_t kCachedWeight = 8 << 20, kCachedLogits = 1 << 18;
  return weight.bytes() <= kCachedWeight ? std::clamp<int64_t>(kCachedLogits / width, 32, 256) : 128;
}

// Columns of a tile, so that the weight's part of it stays in L2.
int64_t tile_columns(const cpu::PackedMatrix& weight) {
  return cpu::column_block(weight, std::max<int64_t>(64, kTileWeight * weight.n() / weight.bytes()));
}

int64_t aligned(int64_t bytes) { return round_up(bytes, Plan::kAlign); }

int64_t f32_bytes(int64_t elements) { return aligned(elements * static_cast<int64_t>(sizeof(float))); }

float total(const float* loss, int64_t rows, float weight) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += loss[r];
  return static_cast<float>(sum * weight);
}

void check_labels(const Tensor& labels, int64_t vocabulary) {
  for (int64_t r = 0; r < labels.elements(); ++r)
    check(labels.as<int32_t>()[r] < vocabulary, "cross_entropy: label {} of {}", labels.as<int32_t>()[r], vocabulary);
}

std::vector<Spec> infer_losses(std::string_view name, const Spec& x, int64_t rows, const Spec& labels,
                               const Spec& weight) {
  check(x.shape.rank() == 2 && labels.shape == Shape{rows} && labels.dtype == DType::kI32 && weight.shape == Shape{1} &&
            weight.dtype == DType::kF32,
        "{}: {}, labels {}, weight {}", name, x.shape.str(), labels.shape.str(), weight.shape.str());
  return {{{1}, DType::kF32}, {{rows}, DType::kF32}};
}

}  // namespace

Expr cross_entropy(Expr logits, Expr labels, Expr weight, float smoothing) {
  return logits.graph().append(CrossEntropy{smoothing}, {logits, labels, weight});
}

Expr project_top_k(Expr x, Expr w, int k, Expr mask) {
  return mask ? x.graph().append(ProjectTopK{k}, {x, w, mask}) : x.graph().append(ProjectTopK{k}, {x, w});
}

std::vector<Spec> CrossEntropy::infer(std::span<const Spec> in) const {
  return infer_losses(kName, in[0], in[0].shape.dim(0), in[1], in[2]);
}

int64_t CrossEntropy::scratch(std::span<const Spec> in) const {
  return f32_bytes(in[0].shape.elements()) + f32_bytes(in[0].shape[0]);
}

void CrossEntropy::cpu(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  check_labels(l.in[1], width);
  auto* wide = reinterpret_cast<float*>(l.scratch);
  auto* loss = reinterpret_cast<float*>(l.scratch + f32_bytes(rows * width));
  cpu::convert(logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cpu::cross_entropy(DType::kF32, {0, rows}, width, wide, l.in[1].as<int32_t>(), smoothing, 1, loss,
                     l.out[1].as<float>(), nullptr);
  *l.out[0].as<float>() = total(loss, rows, *l.in[2].as<float>());
}

void CrossEntropy::backward(Backprop& b) const {
  b.add(0, b.graph().append(CrossEntropyGradient{smoothing}, {b.input(0), b.input(1), b.input(2), b.gradient()}));
}

void CrossEntropyGradient::backward(Backprop&) const {
  check(false, "{}: the gradient of a gradient is not taken", kName);
}

int64_t CrossEntropyGradient::scratch(std::span<const Spec> in) const {
  return f32_bytes(in[0].shape.elements()) + f32_bytes(in[0].shape[0]);
}

void CrossEntropyGradient::cpu(const Launch& l) const {
  const Tensor& logits = l.in[0];
  const int64_t rows = logits.shape()[0], width = logits.shape()[1];
  auto* wide = reinterpret_cast<float*>(l.scratch);
  auto* loss = reinterpret_cast<float*>(l.scratch + f32_bytes(rows * width));
  cpu::convert(logits.dtype(), logits.data, DType::kF32, wide, rows * width);
  cpu::cross_entropy(logits.dtype(), {0, rows}, width, wide, l.in[1].as<int32_t>(), smoothing,
                     *l.in[2].as<float>() * *l.in[3].as<float>(), loss, nullptr, l.out[0].data);
}

std::vector<Spec> ProjectCrossEntropy::infer(std::span<const Spec> in) const {
  check(in[1].shape.rank() == 2 && in[1].shape[1] == in[0].shape.dim(-1), "{}: x {}, weight {}", kName,
        in[0].shape.str(), in[1].shape.str());
  auto out = infer_losses(kName, in[0], in[0].shape.dim(0), in[2], in[3]);
  if (gradients) {
    out.push_back(in[0]);
    out.push_back(in[1]);
  }
  return out;
}

void ProjectCrossEntropy::backward(Backprop& b) const {
  check(b.is_seed(0) && !b.gradient(1), "{}: the loss must be what backward() starts from", kName);
  // The node itself becomes the one that computes its gradients.
  Node& node = b.graph().nodes()[static_cast<size_t>(b.node())];
  ProjectCrossEntropy op = *this;
  op.gradients = true;
  node.op = op;
  node.outputs.push_back(b.input(0).spec());
  node.outputs.push_back(b.input(1).spec());
  node.sinks = {-1, -1, -1, b.wants(1) ? b.sink(1) : -1};
  if (b.wants(0)) b.add(0, b.output(2));
}

int64_t ProjectCrossEntropy::scratch(std::span<const Spec> in) const {
  const int64_t rows = in[0].shape[0], width = in[1].shape[0];
  int64_t bytes = f32_bytes(rows);
  if (gradients) bytes += aligned(std::min(rows, kGradientRows) * width * static_cast<int64_t>(size_of(in[0].dtype)));
  return bytes;
}

void ProjectCrossEntropy::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1];
  const DType t = x.dtype();
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = w.shape()[0];
  check_labels(l.in[2], width);
  auto& pool = l.runtime.pool();
  const auto* labels = l.in[2].as<int32_t>();
  const float weight = *l.in[3].as<float>();
  auto* loss = reinterpret_cast<float*>(l.scratch);
  std::byte* dlogits = l.scratch + f32_bytes(rows);
  const auto& packed = l.runtime.packed(w, t, false);
  const auto size = static_cast<int64_t>(size_of(t));
  for (int64_t chunk = 0; chunk < rows; chunk += kGradientRows) {
    const int64_t count = std::min(kGradientRows, rows - chunk);
    pool.parallel_for(count, logit_rows(width, packed), [&](int64_t begin, int64_t end) {
      thread_local AlignedVector<float> logits;
      logits.resize(static_cast<size_t>((end - begin) * width));
      const int64_t first = chunk + begin;
      thread_local cpu::Operand operand;
      operand.assign(packed, end - begin, t, x.at(first * depth));
      cpu::multiply_block(packed, 0, width, operand, 0, end - begin, logits.data());
      cpu::cross_entropy(t, {0, end - begin}, width, logits.data(), labels + first, smoothing, weight, loss + first,
                         l.out[1].as<float>() + first, gradients ? dlogits + begin * width * size : nullptr);
    });
    if (!gradients) continue;
    const auto& transposed = l.runtime.packed(w, t, true);
    cpu::multiply(pool, transposed, count, t, dlogits, t, l.out[2].at(chunk * depth));
    cpu::multiply_transposed(pool, t, count, width, depth, dlogits, x.at(chunk * depth), l.out[3].as<float>());
  }
  *l.out[0].as<float>() = total(loss, rows, weight);
}

std::vector<Spec> ProjectTopK::infer(std::span<const Spec> in) const {
  check(in[0].shape.rank() == 2 && in[1].shape.rank() == 2 && in[0].shape[1] == in[1].shape[1] && k >= 1 &&
            k <= in[1].shape[0],
        "{}: x {}, weight {}, k {}", kName, in[0].shape.str(), in[1].shape.str(), k);
  if (in.size() > 2)
    check(in[2].dtype == DType::kU8 && in[2].shape == Shape{in[0].shape[0], round_up(in[1].shape[0], 64) / 8},
          "{}: mask {} for x {}, weight {}", kName, in[2].shape.str(), in[0].shape.str(), in[1].shape.str());
  return {{{in[0].shape[0], k}, DType::kF32}, {{in[0].shape[0], k}, DType::kI32}};
}

void ProjectTopK::backward(Backprop&) const { check(false, "{}: decoding has no gradient", kName); }

namespace {

// Replaces each place among a mask's set bits by the column of that bit.
void to_columns(const uint8_t* mask, std::span<int32_t> places) {
  std::vector<size_t> rising(places.size());
  std::iota(rising.begin(), rising.end(), 0);
  std::ranges::sort(rising, {}, [&](size_t i) { return places[i]; });
  int64_t byte = 0, before = 0;  // bits set in the bytes before it
  const auto set = [&] { return std::popcount(mask[byte]); };
  for (const size_t i : rising) {
    for (; before + set() <= places[i]; ++byte) before += set();
    unsigned bits = mask[byte];
    for (int64_t skip = places[i] - before; skip > 0; --skip) bits &= bits - 1;
    places[i] = static_cast<int32_t>(8 * byte + std::countr_zero(bits));
  }
}

}  // namespace

void ProjectTopK::cpu(const Launch& l) const {
  if (l.in.size() > 2) return masked(l);
  const Tensor& x = l.in[0];
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = l.in[1].shape()[0];
  const auto& packed = l.runtime.packed(l.in[1], x.dtype(), false);
  const int64_t tile = tile_columns(packed);
  const int64_t columns = std::max(tile, kTopColumns / tile * tile), parts = divide_up(width, columns);
  const int64_t stride = rows * k;
  thread_local std::vector<float> all_values;  // of every part: the caller's
  thread_local std::vector<int32_t> all_ids;
  thread_local std::vector<cpu::BestLogits> all_best;
  all_values.resize(static_cast<size_t>(parts * stride));
  all_ids.resize(all_values.size());
  all_best.assign(static_cast<size_t>(parts * rows), {});
  float* const values = all_values.data();
  int32_t* const ids = all_ids.data();
  cpu::BestLogits* const best = all_best.data();
  l.runtime.pool().parallel_for(parts * divide_up(rows, kTopRows), 1, [&](int64_t task, int64_t) {
    thread_local AlignedVector<float> logits;
    const int64_t part = task % parts, row_begin = task / parts * kTopRows,
                  row_end = std::min(row_begin + kTopRows, rows);
    thread_local cpu::Operand operand;
    operand.assign(packed, row_end - row_begin, x.dtype(), x.at(row_begin * depth));
    for (int64_t first = part * columns; first < std::min((part + 1) * columns, width); first += tile)
      for (int64_t row = row_begin; row < row_end; row += kTileRows) {
        const int64_t last = std::min(first + tile, width), n = last - first,
                      count = std::min(kTileRows, row_end - row);
        logits.resize(static_cast<size_t>(count * n));
        cpu::multiply_block(packed, first, last, operand, row - row_begin, count, logits.data());
        for (int64_t r = row; r < row + count; ++r)
          cpu::find_best(logits.data() + (r - row) * n, n, static_cast<int32_t>(first), k, best[r * parts + part],
                         values + part * stride + r * k, ids + part * stride + r * k);
      }
  });
  l.runtime.pool().parallel_for(rows, kTileRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      cpu::merge_best(static_cast<int>(parts), best + r * parts, k, stride, values + r * k, ids + r * k,
                      l.out[0].as<float>() + r * k, l.out[1].as<int32_t>() + r * k);
  });
}

// A row's own logits are brought together before they are looked at: which others there are changes no rounding.
void ProjectTopK::masked(const Launch& l) const {
  const Tensor& x = l.in[0];
  const int64_t rows = x.shape()[0], depth = x.shape()[1], width = l.in[1].shape()[0], mask_bytes = l.in[2].shape()[1];
  const auto& packed = l.runtime.packed(l.in[1], x.dtype(), false);
  const int64_t tile = tile_columns(packed);
  l.runtime.pool().parallel_for(rows, kTileRows, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    thread_local AlignedVector<float> logits, kept;
    thread_local cpu::Operand operand;
    std::vector<int64_t> found(static_cast<size_t>(count));
    kept.resize(static_cast<size_t>(count * width));
    operand.assign(packed, count, x.dtype(), x.at(begin * depth));
    const auto* mask = l.in[2].as<uint8_t>() + begin * mask_bytes;
    for (int64_t first = 0; first < width; first += tile) {
      const int64_t last = std::min(first + tile, width), n = last - first;
      logits.resize(static_cast<size_t>(count * n));
      cpu::multiply_block(packed, first, last, operand, 0, count, logits.data());
      for (int64_t r = 0; r < count; ++r) {
        int64_t& kept_of_row = found[static_cast<size_t>(r)];
        kept_of_row += cpu::keep_logits(n, mask + r * mask_bytes + first / 8, logits.data() + r * n,
                                        kept.data() + r * width + kept_of_row);
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      float* log_probabilities = l.out[0].as<float>() + (begin + r) * k;
      int32_t* ids = l.out[1].as<int32_t>() + (begin + r) * k;
      cpu::BestLogits best;
      std::vector<float> values(static_cast<size_t>(k));
      cpu::find_best(kept.data() + r * width, found[static_cast<size_t>(r)], 0, k, best, values.data(), ids);
      to_columns(mask + r * mask_bytes, {ids, static_cast<size_t>(best.found)});
      cpu::merge_best(1, &best, k, k, values.data(), ids, log_probabilities, ids);
    }
  });
}

}  // namespace nmt
