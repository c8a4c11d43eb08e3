#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// The rows of one item in the arguments of attention_backward.
template <class T>
struct Gradients {
  const T *q, *k, *v, *dout;
  const float* logsumexp;
  T *dq, *dk, *dv;
};

template <class T, bool kDropout>
void differentiate(const Attention& a, const Item& item, const Gradients<T>& g) {
  const int64_t block = query_block(item.queries, item.keys, a.mask), all_keys = round_up(item.keys);
  const int64_t k_width = round_up(a.d_k), v_width = round_up(a.d_v), length = row_length(item.keys);
  const auto [keys, dkeys, keys_transposed, values, dvalues, values_transposed, queries, dqueries, dsums, weights,
              dweights] = scratch_arrays({all_keys * k_width, item.keys * k_width, k_width * length, all_keys * v_width,
                                          item.keys * v_width, v_width * length, block * k_width, block * k_width,
                                          block * v_width, block * length, block * length});
  load_rows(g.k, a.k_stride, item.keys, all_keys, a.d_k, 1.0f, keys);
  transpose_rows(keys, k_width, all_keys, k_width, keys_transposed, length);
  load_rows(g.v, a.v_stride, item.keys, all_keys, a.d_v, 1.0f, values);
  transpose_rows(values, v_width, all_keys, v_width, values_transposed, length);
  std::fill_n(dkeys, item.keys * k_width, 0.0f);
  std::fill_n(dvalues, item.keys * v_width, 0.0f);

  auto kept = kept_weights(a, item);
  const float kept_scale = 1 / (1 - a.dropout.rate);
  for (int64_t begin = 0; begin < item.queries; begin += block) {
    const int64_t rows = std::min(block, item.queries - begin);
    const SeenKeys seen(a.mask, item, begin, rows);
    const int64_t vectors = round_up(seen.count) / kLanes, diagonal = begin - seen.first;
    const auto triangle = [&](Triangle t) { return a.mask.causal ? t : Triangle::kNone; };
    load_rows(g.q + begin * a.q_stride, a.q_stride, rows, rows, a.d_k, a.scale, queries);
    load_rows(g.dout + begin * a.out_stride, a.out_stride, rows, rows, a.d_v, 1.0f, dsums);
    multiply_small({rows, vectors, a.d_k, queries, k_width, 1, keys_transposed + seen.first, length, weights, length,
                    false, triangle(Triangle::kOutput), diagonal});
    multiply_small({rows, vectors, a.d_v, dsums, v_width, 1, values_transposed + seen.first, length, dweights, length,
                    false, triangle(Triangle::kOutput), diagonal});
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r;
      std::fill_n(weights + r * length, seen.hidden(i), -kInfinity);
      row_gradient<kDropout>(weights + r * length, dweights + r * length, seen.valid(i), round_up(seen.count),
                             g.logsumexp[i], kept_scale, &kept, item.weight_first + i * item.keys + seen.first);
    }
    // dV += P^T dO, dK += dS^T (scale Q), dQ = scale dS K
    multiply_small({seen.count, v_width / kLanes, rows, weights, 1, length, dsums, v_width,
                    dvalues + seen.first * v_width, v_width, true, triangle(Triangle::kUpper), diagonal});
    multiply_small({seen.count, k_width / kLanes, rows, dweights, 1, length, queries, k_width,
                    dkeys + seen.first * k_width, k_width, true, triangle(Triangle::kUpper), diagonal});
    multiply_small({rows, k_width / kLanes, seen.count, dweights, length, 1, keys + seen.first * k_width, k_width,
                    dqueries, k_width, false, triangle(Triangle::kLower), diagonal});
    store_rows(dqueries, rows, a.d_k, a.scale, g.dq + begin * a.q_stride, a.q_stride);
  }
  store_rows(dkeys, item.keys, a.d_k, 1.0f, g.dk, a.k_stride);
  store_rows(dvalues, item.keys, a.d_v, kept_scale, g.dv, a.v_stride);
}

}  // namespace

void attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* logsumexp, const void* dout, void* dq, void* dk, void* dv) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const auto of = [&](const Item& item) -> Gradients<T> {
      return {static_cast<const T*>(q) + item.q_at, static_cast<const T*>(k) + item.k_at,
              static_cast<const T*>(v) + item.v_at, static_cast<const T*>(dout) + item.out_at,
              logsumexp + item.logsumexp_at,        static_cast<T*>(dq) + item.q_at,
              static_cast<T*>(dk) + item.k_at,      static_cast<T*>(dv) + item.v_at};
    };
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      if (i + 1 < item_end) {
        const Item next(a, i + 1);
        const Gradients<T> g = of(next);
        for (const T* rows : {g.q, static_cast<const T*>(g.dq)}) fetch_rows(rows, a.q_stride, next.queries, a.d_k);
        for (const T* rows : {g.k, static_cast<const T*>(g.dk)}) fetch_rows(rows, a.k_stride, next.keys, a.d_k);
        for (const T* rows : {g.v, static_cast<const T*>(g.dv)}) fetch_rows(rows, a.v_stride, next.keys, a.d_v);
        fetch_rows(g.dout, a.out_stride, next.queries, a.d_v);
      }
      const auto run = a.dropout.rate == 0 ? differentiate<T, false> : differentiate<T, true>;
      run(a, item, of(item));
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_backward);

void attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* logsumexp, const void* dout, void* dq, void* dk, void* dv) {
  HWY_DYNAMIC_DISPATCH(attention_backward)
  (t, a, item_begin, item_end, q, k, v, logsumexp, dout, dq, dk, dv);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
