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

// One query, with p = exp(s - logsumexp) and m = 1 where dropout keeps a weight, else 0:
//   dw = dp * m * kept_scale, D = sum of p * dw, ds = p * (dw - D); s becomes p * m and dp becomes ds.
// From `valid` to `padded` both are zero.
template <bool kDropout>
HWY_INLINE void row_gradient(float* s, float* dp, int64_t valid, int64_t padded, float logsumexp, float kept_scale,
                             KeptWeights* kept, int64_t element) {
  const DF d;
  const auto shift = hn::Set(d, logsumexp), scale = hn::Set(d, kept_scale);
  const auto tail = hn::FirstN(d, static_cast<size_t>(valid % kLanes));
  const int64_t whole = valid / kLanes * kLanes;

  auto sum = hn::Zero(d);
  const auto step = [&](int64_t j, auto p, auto dw) HWY_ATTR {
    if constexpr (kDropout) {
      if (j % KeptWeights::kElements == 0) kept->need(element + j, std::min(valid - j, KeptWeights::kElements));
      const auto keep = kept->kept(element + j);
      dw = hn::IfThenElseZero(keep, hn::Mul(dw, scale));
      sum = hn::MulAdd(p, dw, sum);
      p = hn::IfThenElse(keep, p, hn::Neg(p));  // p >= 0: the sign keeps m
    } else {
      sum = hn::MulAdd(p, dw, sum);
    }
    hn::Store(p, d, s + j);
    hn::Store(dw, d, dp + j);
  };
  for (int64_t j = 0; j < whole; j += kLanes) {
    step(j, exp(d, hn::Sub(hn::Load(d, s + j), shift)), hn::Load(d, dp + j));
  }
  if (whole < valid) {
    step(whole, hn::IfThenElseZero(tail, exp(d, hn::Sub(hn::Load(d, s + whole), shift))),
         hn::IfThenElseZero(tail, hn::Load(d, dp + whole)));
  }
  const auto total = hn::SumOfLanes(d, sum);
  for (int64_t j = 0; j < valid; j += kLanes) {
    const auto p = hn::Load(d, s + j);
    hn::Store(hn::Mul(hn::Abs(p), hn::Sub(hn::Load(d, dp + j), total)), d, dp + j);
    if constexpr (kDropout) hn::Store(hn::Max(p, hn::Zero(d)), d, s + j);
  }
  for (int64_t j = round_up(valid); j < padded; j += kLanes) {
    hn::Store(hn::Zero(d), d, s + j);
    hn::Store(hn::Zero(d), d, dp + j);
  }
}

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
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      const int64_t q_first = item.q_first * a.q_stride + item.head * a.d_k;
      const int64_t k_first = item.k_first * a.k_stride + item.head * a.d_k;
      const int64_t v_first = item.k_first * a.v_stride + item.head * a.d_v;
      const int64_t out_first = item.q_first * a.out_stride + item.head * a.d_v;
      const auto run = a.dropout.rate == 0 ? differentiate<T, false> : differentiate<T, true>;
      run(a, item,
          {static_cast<const T*>(q) + q_first, static_cast<const T*>(k) + k_first, static_cast<const T*>(v) + v_first,
           static_cast<const T*>(dout) + out_first, logsumexp + item.head * item.all_queries + item.q_first,
           static_cast<T*>(dq) + q_first, static_cast<T*>(dk) + k_first, static_cast<T*>(dv) + v_first});
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
