#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// From scores to exp(score - shift), those dropped zero; from `valid` to `padded` zeros. shift and sum (of all, also
// the dropped) as in simd-inl.h.
template <bool kDropout>
HWY_INLINE Normaliser exponentials(float* s, int64_t valid, int64_t padded, KeptWeights* kept, int64_t element) {
  const DF d;
  const auto tail = hn::FirstN(d, static_cast<size_t>(valid % kLanes));
  const int64_t whole = valid / kLanes * kLanes;
  auto largest = hn::Set(d, -kInfinity);
  for (int64_t j = 0; j < whole; j += kLanes) largest = hn::Max(largest, hn::Load(d, s + j));
  if (whole < valid) largest = hn::Max(largest, hn::IfThenElse(tail, hn::Load(d, s + whole), largest));
  const float max = max_of_lanes(d, largest);
  const float shift = max == -kInfinity ? 0 : max;
  const auto shifts = hn::Set(d, shift);

  auto sum = hn::Zero(d);
  const auto step = [&](int64_t j, auto e) HWY_ATTR {
    sum = hn::Add(sum, e);
    if constexpr (kDropout) {
      if (j % KeptWeights::kElements == 0) kept->need(element + j, std::min(valid - j, KeptWeights::kElements));
      e = hn::IfThenElseZero(kept->kept(element + j), e);
    }
    hn::Store(e, d, s + j);
  };
  for (int64_t j = 0; j < whole; j += kLanes) step(j, exp(d, hn::Sub(hn::Load(d, s + j), shifts)));
  if (whole < valid) {
    step(whole, hn::IfThenElseZero(tail, exp(d, hn::Sub(hn::Load(d, s + whole), shifts))));
  }
  for (int64_t j = round_up(valid); j < padded; j += kLanes) hn::Store(hn::Zero(d), d, s + j);
  return {shift, sum_of_lanes(d, sum)};
}

// shift + log(sum); -infinity for an empty sum. Reads whole vectors.
HWY_INLINE void log_normalisers(const float* shifts, const float* sums, int64_t rows, float* out) {
  const DF d;
  for_each(d, rows, [&](int64_t r, size_t n) HWY_ATTR {
    const auto sum = hn::Load(d, sums + r);
    const auto value = hn::Add(hn::Load(d, shifts + r), log(d, sum));
    store(d, hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Set(d, -kInfinity), value), out + r, n);
  });
}

template <class T, bool kDropout>
void attend(const Attention& a, const Item& item, const T* q, const T* k, const T* v, T* out, float* logsumexp) {
  const int64_t block = query_block(item.queries, item.keys, a.mask), all_keys = round_up(item.keys);
  const int64_t k_width = round_up(a.d_k), v_width = round_up(a.d_v), length = row_length(item.keys);
  const auto [keys, keys_transposed, values, queries, scores, sums, shifts, normalisers] =
      scratch_arrays({all_keys * k_width, k_width * length, item.keys * v_width, block * k_width, block * length,
                      block * v_width, round_up(block), round_up(block)});
  load_rows(k, a.k_stride, item.keys, all_keys, a.d_k, 1.0f, keys);
  transpose_rows(keys, k_width, all_keys, k_width, keys_transposed, length);
  load_rows(v, a.v_stride, item.keys, item.keys, a.d_v, 1.0f, values);

  auto kept = kept_weights(a, item);
  const float kept_scale = 1 / (1 - a.dropout.rate);
  for (int64_t begin = 0; begin < item.queries; begin += block) {
    const int64_t rows = std::min(block, item.queries - begin);
    const SeenKeys seen(a.mask, item, begin, rows);
    const auto triangle = [&](Triangle t) { return a.mask.causal ? t : Triangle::kNone; };
    load_rows(q + begin * a.q_stride, a.q_stride, rows, rows, a.d_k, a.scale, queries);
    multiply_small({rows, round_up(seen.count) / kLanes, a.d_k, queries, k_width, 1, keys_transposed + seen.first,
                    length, scores, length, false, triangle(Triangle::kOutput), begin - seen.first});
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r;
      std::fill_n(scores + r * length, seen.hidden(i), -kInfinity);
      const Normaliser n = exponentials<kDropout>(scores + r * length, seen.valid(i), round_up(seen.count), &kept,
                                                  item.weight_first + i * item.keys + seen.first);
      shifts[r] = n.shift;
      normalisers[r] = n.sum;
    }
    multiply_small({rows, v_width / kLanes, seen.count, scores, length, 1, values + seen.first * v_width, v_width, sums,
                    v_width, false, triangle(Triangle::kLower), begin - seen.first});
    for (int64_t r = 0; r < rows; ++r) {  // no keys: zeros
      const float factor = normalisers[r] == 0 ? 0 : kept_scale / normalisers[r];
      store_rows(sums + r * v_width, 1, a.d_v, factor, out + (begin + r) * a.out_stride, a.out_stride);
    }
    log_normalisers(shifts, normalisers, rows, logsumexp + begin);
  }
}

}  // namespace

void attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
               const void* v, void* out, float* logsumexp) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t i = item_begin; i < item_end; ++i) {
      const Item item(a, i);
      const auto run = a.dropout.rate == 0 ? attend<T, false> : attend<T, true>;
      run(a, item, static_cast<const T*>(q) + item.q_first * a.q_stride + item.head * a.d_k,
          static_cast<const T*>(k) + item.k_first * a.k_stride + item.head * a.d_k,
          static_cast<const T*>(v) + item.k_first * a.v_stride + item.head * a.d_v,
          static_cast<T*>(out) + item.q_first * a.out_stride + item.head * a.d_v,
          logsumexp + item.head * item.all_queries + item.q_first);
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention);

void attention(DType t, const Attention& a, int64_t item_begin, int64_t item_end, const void* q, const void* k,
               const void* v, void* out, float* logsumexp) {
  HWY_DYNAMIC_DISPATCH(attention)(t, a, item_begin, item_end, q, k, v, out, logsumexp);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
