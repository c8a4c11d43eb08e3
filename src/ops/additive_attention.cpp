#include "ops/additive_attention.h"

#include <algorithm>

#include "backend/cpu/additive_attention.h"
#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/attention.h"
#include "ops/cache.h"
#include "ops/elementwise.h"

namespace nmt {
Expr additive_attention(Expr q, Expr k, Expr v, Expr w, const Segments& s, KeyMask mask, float rate) {
  Graph& g = q.graph();
  return g.append(AdditiveAttention{mask, rate, rate > 0 ? g.next_dropout_site() : 0},
                  {q, k, v, w, s.query_begin, s.key_begin, s.weight_begin});
}

Expr cached_additive_attention(Expr qkv, Expr key_cache, Expr value_cache, Expr w, Expr slot, Expr entry, Expr length,
                               int window) {
  return qkv.graph().append(CachedAdditiveAttention{window}, {qkv, key_cache, value_cache, w, slot, entry, length});
}

std::vector<Spec> AdditiveAttention::infer(std::span<const Spec> in) const {
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape, &w = in[3].shape;
  check_activation(kName, in[0]);
  check(q.rank() == 2 && k.rank() == 2 && v.rank() == 2 && w.rank() == 2 && q[1] == k[1] && q[1] == w.elements() &&
            k[0] == v[0] && w[0] > 0 && v[1] % w[0] == 0 && in[1].dtype == in[0].dtype && in[2].dtype == in[0].dtype &&
            in[3].dtype == DType::kF32,
        "{}: q {}, k {}, v {}, w {} do not fit", kName, q, k, v, w);
  check_segments(kName, in[4], in[5], in[6]);
  return {{{q[0], v[1]}, in[0].dtype}, {{w[0], q[0]}, DType::kF32}};
}

// Of each pair, for each column of a key: a sum, tanh counted as one, a product and another sum; two for one of a
// value.
double AdditiveAttention::flops(std::span<const Tensor> in) const {
  return pairs_seen(in[4], in[5], mask) * static_cast<double>(4 * in[0].shape()[1] + 2 * in[2].shape()[1]);
}

Attention AdditiveAttention::describe(const Launch& l) const {
  const int64_t heads = l.in[3].shape()[0], keys = l.in[0].shape()[1], values = l.in[2].shape()[1];
  return {.sentences = l.in[4].elements() - 1,
          .q_begin = l.in[4].as<int32_t>(),
          .k_begin = l.in[5].as<int32_t>(),
          .weight_begin = l.in[6].as<int64_t>(),
          .heads = static_cast<int>(heads),
          .d_k = static_cast<int>(keys / heads),
          .d_v = static_cast<int>(values / heads),
          .scale = 1,
          .mask = mask,
          .dropout = dropout_of(l.runtime, rate, site),
          .q_stride = keys,
          .k_stride = keys,
          .v_stride = values,
          .out_stride = values};
}

void AdditiveAttention::cpu(const Launch& l) const {
  const auto a = describe(l);
  const int64_t items = a.sentences * a.heads;
  l.runtime.pool().parallel_for(items, item_grain(items), [&](int64_t begin, int64_t end) {
    cpu::additive_attention(l.in[0].dtype(), a, begin, end, l.in[0].data, l.in[1].data, l.in[2].data,
                            l.in[3].as<float>(), l.out[0].data, l.out[1].as<float>());
  });
}

void AdditiveAttention::backward(Backprop& b) const {
  const Expr g = b.graph().append(
      AdditiveAttentionGradient{*this},
      {b.input(0), b.input(1), b.input(2), b.input(3), b.input(4), b.input(5), b.input(6), b.output(1), b.gradient()},
      {-1, -1, -1, b.wants(3) ? b.sink(3) : -1});
  for (int i = 0; i < 3; ++i)
    if (b.wants(i)) b.add(i, g.output(i));
}

std::vector<Spec> AdditiveAttentionGradient::infer(std::span<const Spec> in) const {
  return {in[0], in[1], in[2], in[3]};
}

int64_t AdditiveAttentionGradient::scratch(std::span<const Spec> in) const {
  return (in[4].shape[0] - 1) * in[3].shape.elements() * static_cast<int64_t>(sizeof(float));
}

void AdditiveAttentionGradient::cpu(const Launch& l) const {
  const auto a = forward.describe(l);
  const int64_t items = a.sentences * a.heads, width = l.in[3].elements();
  auto* parts = reinterpret_cast<float*>(l.scratch);  // [sentences, heads * d_k]
  l.runtime.pool().parallel_for(items, item_grain(items), [&](int64_t begin, int64_t end) {
    cpu::additive_attention_backward(l.in[0].dtype(), a, begin, end, l.in[0].data, l.in[1].data, l.in[2].data,
                                     l.in[3].as<float>(), l.in[7].as<float>(), l.in[8].data, l.out[0].data,
                                     l.out[1].data, l.out[2].data, parts);
  });
  for (int64_t s = 0; s < a.sentences; ++s) cpu::add_f32(0, width, parts + s * width, l.out[3].as<float>());
}

std::vector<Spec> CachedAdditiveAttention::infer(std::span<const Spec> in) const {
  check_key_value_caches(kName, in[0], in[1], in[2], in[4], in[5], in[6]);
  const int64_t keys = in[1].shape[1], values = in[2].shape[1];
  check(in[3].shape.rank() == 2 && in[3].shape.elements() == keys && in[3].shape[0] > 0 && values % in[3].shape[0] == 0,
        "{}: caches {} and {}, w {}", kName, in[1].shape, in[2].shape, in[3].shape);
  return {{{in[0].shape[0], values}, in[0].dtype}};
}

double CachedAdditiveAttention::flops(std::span<const Tensor> in) const {
  return cached_pairs_seen(in[6], window) * static_cast<double>(4 * in[1].shape()[1] + 2 * in[2].shape()[1]);
}

// Each row's keys and values are put together: then it is a sentence with one query.
void CachedAdditiveAttention::cpu(const Launch& l) const {
  const Tensor &qkv = l.in[0], &key_cache = l.in[1], &value_cache = l.in[2], &w = l.in[3];
  const int64_t keys = key_cache.shape()[1], values = value_cache.shape()[1], width = qkv.shape()[1];
  const auto *entry = l.in[5].as<int32_t>(), *length = l.in[6].as<int32_t>();
  const int64_t heads = w.shape()[0], stride = l.in[5].shape()[1];
  const auto key_bytes = static_cast<size_t>(qkv.bytes(keys)), value_bytes = static_cast<size_t>(qkv.bytes(values));
  write_key_value_caches(qkv, key_cache, value_cache, l.in[4].as<int32_t>());
  l.runtime.pool().parallel_for(qkv.shape()[0], 4, [&](int64_t begin, int64_t end) {
    std::vector<std::byte> k, v;
    std::vector<float> unused(static_cast<size_t>(heads));
    for (int64_t r = begin; r < end; ++r) {
      const int32_t seen = cached_keys_seen(length[r], window);
      k.resize(static_cast<size_t>(seen) * key_bytes);
      v.resize(static_cast<size_t>(seen) * value_bytes);
      for (int32_t j = 0; j < seen; ++j) {
        const int64_t row = entry[r * stride + length[r] - seen + j];
        std::copy_n(key_cache.at(row * keys), key_bytes, k.data() + static_cast<size_t>(j) * key_bytes);
        std::copy_n(value_cache.at(row * values), value_bytes, v.data() + static_cast<size_t>(j) * value_bytes);
      }
      const int32_t q_begin[] = {0, 1}, k_begin[] = {0, seen};
      const int64_t weight_begin[] = {0, seen};
      const Attention a{.sentences = 1,
                        .q_begin = q_begin,
                        .k_begin = k_begin,
                        .weight_begin = weight_begin,
                        .heads = static_cast<int>(heads),
                        .d_k = static_cast<int>(keys / heads),
                        .d_v = static_cast<int>(values / heads),
                        .scale = 1,
                        .mask = {},
                        .dropout = {},
                        .q_stride = width,
                        .k_stride = keys,
                        .v_stride = values,
                        .out_stride = values};
      cpu::additive_attention(qkv.dtype(), a, 0, heads, qkv.at(r * width), k.data(), v.data(), w.as<float>(),
                              l.out[0].at(r * values), unused.data());
    }
  });
}

}  // namespace nmt
