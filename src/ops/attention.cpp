#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/runtime.h"
#include "ops/cache.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/normalize.h"

namespace nmt {
namespace {

float factor_or_default(float factor, int64_t d_k) {
  return factor > 0 ? factor : 1.f / std::sqrt(static_cast<float>(d_k));
}

}  // namespace

Expr attention_weights(Expr q, Expr k, int heads, const Segments& segments, KeyMask mask, float factor) {
  factor = factor_or_default(factor, q.shape().dim(-1) / heads);
  const Expr products = matmul(split_heads(q, heads), split_heads(k, heads), false, true);
  return softmax(mask_segments(scale(products, factor), segments, mask));
}

Expr weigh_values(Expr weights, Expr v, const Segments& segments, float rate) {
  const auto heads = static_cast<int>(weights.shape()[0]);
  return merge_heads(matmul(dropout_segments(weights, segments, rate), split_heads(v, heads)));
}

Expr attention(Expr q, Expr k, Expr v, int heads, const Segments& segments, KeyMask mask, float rate, float factor) {
  return weigh_values(attention_weights(q, k, heads, segments, mask, factor), v, segments, rate);
}

std::vector<Spec> AttentionOp::infer(std::span<const Spec> in) const {
  const auto fits = [&](const Spec& x, int column, int width) {
    return x.shape.rank() == 2 && x.dtype == in[0].dtype && column >= 0 && column + heads * width <= x.shape[1];
  };
  check(in.size() == 6 && fits(in[0], q_column, d_k) && fits(in[1], k_column, d_k) && fits(in[2], v_column, d_v) &&
            in[1].shape[0] == in[2].shape[0],
        "attention: q {}, k {}, v {} do not fit", in[0].shape, in[1].shape, in[2].shape);
  check_segments(kName, in[3], in[4], in[5]);
  return {{{in[0].shape[0], static_cast<int64_t>(heads) * d_v}, in[0].dtype}, {{heads, in[0].shape[0]}, DType::kF32}};
}

double pairs_seen(const Tensor& query_begin, const Tensor& key_begin, KeyMask mask) {
  const auto *queries = query_begin.as<int32_t>(), *keys = key_begin.as<int32_t>();
  double pairs = 0;
  for (int64_t s = 0; s + 1 < query_begin.elements(); ++s) {
    const int32_t q = queries[s + 1] - queries[s], k = keys[s + 1] - keys[s];
    for (int32_t i = 0; i < q; ++i) pairs += std::max(0, mask.end(i, k) - mask.first(i));
  }
  return pairs;
}

double cached_pairs_seen(const Tensor& length, int window) {
  double pairs = 0;
  for (const int32_t keys : std::span(length.as<int32_t>(), static_cast<size_t>(length.elements())))
    pairs += cached_keys_seen(keys, window);
  return pairs;
}

// Two products of every query with every key that it sees.
double AttentionOp::flops(std::span<const Tensor> in) const {
  return 2.0 * pairs_seen(in[3], in[4], mask) * heads * (d_k + d_v);
}

Attention AttentionOp::describe(const Launch& l) const {
  const auto sentences = l.in[3].elements() - 1;
  return {.sentences = sentences,
          .q_begin = l.in[3].as<int32_t>(),
          .k_begin = l.in[4].as<int32_t>(),
          .weight_begin = l.in[5].as<int64_t>(),
          .heads = heads,
          .d_k = d_k,
          .d_v = d_v,
          .scale = scale,
          .mask = mask,
          .dropout = dropout_of(l.runtime, rate, site),
          .q_stride = l.in[0].shape()[1],
          .k_stride = l.in[1].shape()[1],
          .v_stride = l.in[2].shape()[1],
          .out_stride = static_cast<int64_t>(heads) * d_v};
}

void AttentionOp::cpu(const Launch& l) const {
  const DType t = l.in[0].dtype();
  const auto a = describe(l);
  const int64_t items = a.sentences * heads, threads = l.runtime.pool().size();
  // Without a gradient heads together, where there are enough: few queries read keys and values of all side by side.
  // Items are independent of each other, so the number of threads may count.
  const int64_t together = gradient ? 1 : std::min<int64_t>(heads, items / (2 * threads));
  const int64_t grain = std::max(item_grain(items), together);
  l.runtime.pool().parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    cpu::attention(t, a, begin, end, l.in[0].at(q_column), l.in[1].at(k_column), l.in[2].at(v_column), l.out[0].data,
                   gradient ? l.out[1].as<float>() : nullptr);
  });
}

void AttentionOp::backward(Backprop& b) const {
  AttentionOp forward = *this;
  forward.gradient = true;
  b.node().op = forward;
  using Sources = AttentionGradient::Sources;
  const Value q = b.input(0).value(), k = b.input(1).value(), v = b.input(2).value();
  // Gradients share a tensor where their columns do not overlap.
  const auto apart = [](int a, int width_a, int b, int width_b) { return a + width_a <= b || b + width_b <= a; };
  const int keys = heads * d_k, values = heads * d_v;
  const bool two = k == v && apart(k_column, keys, v_column, values);
  const bool one = two && q == k && apart(q_column, keys, k_column, keys) && apart(q_column, keys, v_column, values);
  const Sources sources = one ? Sources::kOne : two ? Sources::kTwo : Sources::kThree;
  const Expr g = b.graph().append(
      AttentionGradient{*this, sources},
      {b.input(0), b.input(1), b.input(2), b.input(3), b.input(4), b.input(5), b.output(1), b.gradient()});
  for (int i = 0; i <= static_cast<int>(sources); ++i)
    if (b.wants(i)) b.add(i, g.output(i));
}

std::vector<Spec> AttentionGradient::infer(std::span<const Spec> in) const {
  if (sources == Sources::kOne) return {in[0]};
  if (sources == Sources::kTwo) return {in[0], in[1]};
  return {in[0], in[1], in[2]};
}

AttentionGradient::Targets AttentionGradient::targets(const Launch& l) const {
  const auto& f = forward;
  const size_t key = sources == Sources::kOne ? 0 : 1, value = sources == Sources::kThree ? 2 : key;
  const int64_t used[] = {static_cast<int64_t>(f.heads) * f.d_k, static_cast<int64_t>(f.heads) * f.d_k,
                          static_cast<int64_t>(f.heads) * f.d_v};
  const size_t output[] = {0, key, value};
  Targets to{l.out[0].at(f.q_column), l.out[key].at(f.k_column), l.out[value].at(f.v_column), {}};
  for (size_t o = 0; o < l.out.size(); ++o) {
    int64_t covered = 0;
    for (size_t i = 0; i < 3; ++i) covered += output[i] == o ? used[i] : 0;
    if (covered < l.out[o].shape()[1]) to.partly_covered.push_back(o);
  }
  return to;
}

void AttentionGradient::cpu(const Launch& l) const {
  const auto& f = forward;
  const auto a = f.describe(l);
  const Targets to = targets(l);
  for (const size_t o : to.partly_covered) std::fill_n(l.out[o].as<std::byte>(), l.out[o].spec.bytes(), std::byte{0});
  const int64_t items = a.sentences * f.heads;
  l.runtime.pool().parallel_for(items, item_grain(items), [&](int64_t begin, int64_t end) {
    cpu::attention_backward(l.in[0].dtype(), a, begin, end, l.in[0].at(f.q_column), l.in[1].at(f.k_column),
                            l.in[2].at(f.v_column), l.in[6].as<float>(), l.in[7].data, to.dq, to.dk, to.dv);
  });
}

Expr cached_attention(Expr qkv, Expr key_cache, Expr value_cache, Expr slot, Expr entry, Expr length, int heads,
                      int window, float factor) {
  factor = factor_or_default(factor, key_cache.shape()[1] / heads);
  return qkv.graph().append(CachedAttention{heads, window, factor}, {qkv, key_cache, value_cache, slot, entry, length});
}

std::vector<Spec> CachedAttention::infer(std::span<const Spec> in) const {
  check_key_value_caches(kName, in[0], in[1], in[2], in[3], in[4], in[5]);
  const int64_t keys = in[1].shape[1], values = in[2].shape[1];
  check(heads > 0 && keys % heads == 0 && values % heads == 0, "{}: {} heads of caches {} and {}", kName, heads,
        in[1].shape, in[2].shape);
  return {{{in[0].shape[0], values}, in[0].dtype}};
}

double CachedAttention::flops(std::span<const Tensor> in) const {
  return 2.0 * cached_pairs_seen(in[5], window) * static_cast<double>(in[1].shape()[1] + in[2].shape()[1]);
}

AttentionOverCache CachedAttention::describe(const Launch& l) const {
  const int64_t keys = l.in[1].shape()[1], values = l.in[2].shape()[1];
  return {.heads = heads,
          .d_k = static_cast<int>(keys / heads),
          .d_v = static_cast<int>(values / heads),
          .window = window,
          .scale = factor,
          .entry = l.in[4].as<int32_t>(),
          .entry_stride = l.in[4].shape()[1],
          .length = l.in[5].as<int32_t>(),
          .q_stride = l.in[0].shape()[1],
          .k_stride = keys,
          .v_stride = values,
          .out_stride = values};
}

void CachedAttention::cpu(const Launch& l) const {
  const Tensor &qkv = l.in[0], &keys = l.in[1], &values = l.in[2];
  const int64_t rows = qkv.shape()[0];
  const AttentionOverCache a = describe(l);
  write_key_value_caches(qkv, keys, values, l.in[3].as<int32_t>());
  // Up to four neighbours to a task: those of one sentence read together what they share.
  const int64_t grain = std::clamp<int64_t>(rows / (2 * l.runtime.pool().size()), 1, 4);
  l.runtime.pool().parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    cpu::attention_cached(qkv.dtype(), a, begin, end, qkv.data, keys.data, values.data, l.out[0].data);
  });
}

}  // namespace nmt
