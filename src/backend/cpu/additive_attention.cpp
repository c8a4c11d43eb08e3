#include "backend/cpu/additive_attention.h"

#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/additive_attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// w . tanh(q + k); all are filled up with zeros.
HWY_INLINE float score(const float* w, const float* q, const float* k, int64_t width) {
  const DF d;
  auto sum = hn::Zero(d);
  for (int64_t c = 0; c < width; c += kLanes)
    sum = hn::MulAdd(hn::Load(d, w + c), hn::Tanh(d, hn::Add(hn::Load(d, q + c), hn::Load(d, k + c))), sum);
  return sum_of_lanes(d, sum);
}

HWY_INLINE float product(const float* a, const float* b, int64_t width) {
  const DF d;
  auto sum = hn::Zero(d);
  for (int64_t c = 0; c < width; c += kLanes) sum = hn::MulAdd(hn::Load(d, a + c), hn::Load(d, b + c), sum);
  return sum_of_lanes(d, sum);
}

// y += factor * x
HWY_INLINE void add_scaled(float factor, const float* x, int64_t width, float* y) {
  const DF d;
  const auto f = hn::Set(d, factor);
  for (int64_t c = 0; c < width; c += kLanes)
    hn::Store(hn::MulAdd(f, hn::Load(d, x + c), hn::Load(d, y + c)), d, y + c);
}

template <class T, bool kDropout>
void attend(const Attention& a, const Item& item, const T* q, const T* k, const T* v, const float* w, T* out,
            float* logsumexp) {
  const int64_t k_width = round_up(a.d_k), v_width = round_up(a.d_v), length = round_up(item.keys);
  float *keys, *values, *query, *weight, *scores, *sums, *shifts, *normalisers;
  cut_scratch({{&keys, item.keys * k_width},
               {&values, item.keys * v_width},
               {&query, k_width},
               {&weight, k_width},
               {&scores, length},
               {&sums, v_width},
               {&shifts, round_up(item.queries)},
               {&normalisers, round_up(item.queries)}});
  load_rows(k, a.k_stride, item.keys, item.keys, a.d_k, 1.0f, keys);
  load_rows(v, a.v_stride, item.keys, item.keys, a.d_v, 1.0f, values);
  load_rows(w, a.d_k, 1, 1, a.d_k, 1.0f, weight);
  auto kept = kept_weights(a, item);
  for (int64_t i = 0; i < item.queries; ++i) {
    const int64_t first = a.mask.first(i), seen = std::max<int64_t>(0, a.mask.end(i, item.keys) - first);
    load_rows(q + i * a.q_stride, a.q_stride, 1, 1, a.d_k, 1.0f, query);
    for (int64_t j = 0; j < seen; ++j) scores[j] = score(weight, query, keys + (first + j) * k_width, k_width);
    const Normaliser n =
        exponentials<kDropout>(scores, 1.0f, seen, seen, &kept, item.weight_first + i * item.keys + first);
    std::fill_n(sums, v_width, 0.0f);
    for (int64_t j = 0; j < seen; ++j) add_scaled(scores[j], values + (first + j) * v_width, v_width, sums);
    const float factor = n.sum == 0 ? 0 : 1 / (1 - a.dropout.rate) / n.sum;  // no keys: zeros
    store_rows(sums, 1, a.d_v, factor, out + i * a.out_stride, a.out_stride);
    shifts[i] = n.shift;
    normalisers[i] = n.sum;
  }
  log_normalisers(shifts, normalisers, item.queries, logsumexp);
}

// The rows of one item in the arguments of additive_attention_backward.
template <class T>
struct Gradients {
  const T *q, *k, *v, *dout;
  const float *w, *logsumexp;
  T *dq, *dk, *dv;
  float* dw;
};

template <class T, bool kDropout>
void differentiate(const Attention& a, const Item& item, const Gradients<T>& g) {
  const DF d;
  const int64_t k_width = round_up(a.d_k), v_width = round_up(a.d_v), length = round_up(item.keys);
  float *keys, *dkeys, *values, *dvalues, *query, *dquery, *dsum, *weight, *dweight, *p, *dp;
  cut_scratch({{&keys, item.keys * k_width},
               {&dkeys, item.keys * k_width},
               {&values, item.keys * v_width},
               {&dvalues, item.keys * v_width},
               {&query, k_width},
               {&dquery, k_width},
               {&dsum, v_width},
               {&weight, k_width},
               {&dweight, k_width},
               {&p, length},
               {&dp, length}});
  load_rows(g.k, a.k_stride, item.keys, item.keys, a.d_k, 1.0f, keys);
  load_rows(g.v, a.v_stride, item.keys, item.keys, a.d_v, 1.0f, values);
  load_rows(g.w, a.d_k, 1, 1, a.d_k, 1.0f, weight);
  std::fill_n(dkeys, item.keys * k_width, 0.0f);
  std::fill_n(dvalues, item.keys * v_width, 0.0f);
  std::fill_n(dweight, k_width, 0.0f);
  auto kept = kept_weights(a, item);
  const float kept_scale = 1 / (1 - a.dropout.rate);
  for (int64_t i = 0; i < item.queries; ++i) {
    const int64_t first = a.mask.first(i), seen = std::max<int64_t>(0, a.mask.end(i, item.keys) - first);
    load_rows(g.q + i * a.q_stride, a.q_stride, 1, 1, a.d_k, 1.0f, query);
    load_rows(g.dout + i * a.out_stride, a.out_stride, 1, 1, a.d_v, 1.0f, dsum);
    for (int64_t j = 0; j < seen; ++j) {
      p[j] = score(weight, query, keys + (first + j) * k_width, k_width);
      dp[j] = product(dsum, values + (first + j) * v_width, v_width);
    }
    row_gradient<kDropout>(p, dp, 1.0f, seen, seen, g.logsumexp[i], kept_scale, &kept,
                           item.weight_first + i * item.keys + first);
    std::fill_n(dquery, k_width, 0.0f);
    for (int64_t j = 0; j < seen; ++j) {
      const float* key = keys + (first + j) * k_width;
      float* dkey = dkeys + (first + j) * k_width;
      add_scaled(p[j], dsum, v_width, dvalues + (first + j) * v_width);
      const auto dscore = hn::Set(d, dp[j]);
      for (int64_t c = 0; c < k_width; c += kLanes) {  // with t = tanh(q + k): dw += ds t, dq and dk += ds w (1 - t^2)
        const auto t = hn::Tanh(d, hn::Add(hn::Load(d, query + c), hn::Load(d, key + c)));
        const auto slope = hn::Mul(hn::Mul(dscore, hn::Load(d, weight + c)), hn::NegMulAdd(t, t, hn::Set(d, 1.0f)));
        hn::Store(hn::MulAdd(dscore, t, hn::Load(d, dweight + c)), d, dweight + c);
        hn::Store(hn::Add(hn::Load(d, dquery + c), slope), d, dquery + c);
        hn::Store(hn::Add(hn::Load(d, dkey + c), slope), d, dkey + c);
      }
    }
    store_rows(dquery, 1, a.d_k, 1.0f, g.dq + i * a.q_stride, a.q_stride);
  }
  store_rows(dkeys, item.keys, a.d_k, 1.0f, g.dk, a.k_stride);
  store_rows(dvalues, item.keys, a.d_v, kept_scale, g.dv, a.v_stride);
  store_rows(dweight, 1, a.d_k, 1.0f, g.dw, a.d_k);
}

}  // namespace

void additive_attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* w, void* out, float* logsumexp) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      const auto run = a.dropout.rate == 0 ? attend<T, false> : attend<T, true>;
      run(a, item, static_cast<const T*>(q) + item.q_at, static_cast<const T*>(k) + item.k_at,
          static_cast<const T*>(v) + item.v_at, w + item.head * a.d_k, static_cast<T*>(out) + item.out_at,
          logsumexp + item.logsumexp_at);
    }
  });
}

void additive_attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q,
                                 const void* k, const void* v, const float* w, const float* logsumexp, const void* dout,
                                 void* dq, void* dk, void* dv, float* dw) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      const auto run = a.dropout.rate == 0 ? differentiate<T, false> : differentiate<T, true>;
      run(a, item,
          {static_cast<const T*>(q) + item.q_at, static_cast<const T*>(k) + item.k_at,
           static_cast<const T*>(v) + item.v_at, static_cast<const T*>(dout) + item.out_at, w + item.head * a.d_k,
           logsumexp + item.logsumexp_at, static_cast<T*>(dq) + item.q_at, static_cast<T*>(dk) + item.k_at,
           static_cast<T*>(dv) + item.v_at, dw + i * a.d_k});
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(additive_attention);
HWY_EXPORT(additive_attention_backward);

void additive_attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
                        const void* v, const float* w, void* out, float* logsumexp) {
  HWY_DYNAMIC_DISPATCH(additive_attention)(t, a, item_begin, item_end, q, k, v, w, out, logsumexp);
}

void additive_attention_backward(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q,
                                 const void* k, const void* v, const float* w, const float* logsumexp, const void* dout,
                                 void* dq, void* dk, void* dv, float* dw) {
  HWY_DYNAMIC_DISPATCH(additive_attention_backward)
  (t, a, item_begin, item_end, q, k, v, w, logsumexp, dout, dq, dk, dv, dw);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
