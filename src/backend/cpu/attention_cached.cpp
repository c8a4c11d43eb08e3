#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_cached.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// The time goes into reading the cache: a few of its rows at a time are read over all heads, from first to last column.
constexpr int64_t kRows = 4;

// The sums of the blocks of four lanes.
template <class D>
HWY_INLINE hn::Vec<hn::Full128<float>> sum_of_blocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The sums of the lanes of four vectors.
HWY_INLINE hn::Vec<hn::Full128<float>> sums_of_lanes(VF a, VF b, VF c, VF e) {
  const DF d;
  const hn::RepartitionToWide<DF> d2;
  const auto pair = [&](VF x, VF y) HWY_ATTR {
    return hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, x, y), hn::InterleaveUpper(d, x, y)));
  };
  const auto ab = pair(a, b), ce = pair(c, e);
  return sum_of_blocks(
      d, hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(d2, ab, ce))));
}

// Cache rows j .. j + 3, and the four after them, which are fetched meanwhile: the processor does not foresee them.
// Past the last row stands the last again: its score is not used, its weight zero.
template <class T>
struct GatheredRows {
  HWY_INLINE GatheredRows(const T* cache, int64_t stride, const int32_t* entry, int64_t j, int64_t length) {
    for (int64_t i = 0; i < kRows; ++i) {
      row[i] = cache + entry[std::min(j + i, length - 1)] * stride;
      next[i] = cache + entry[std::min(j + kRows + i, length - 1)] * stride;
    }
  }

  const T *row[kRows], *next[kRows];
};

struct Sizes {
  int64_t heads, d_k, d_v;
};

// s[h][j] = q[h] . k[j][h] for all heads; s has rows of `padded` scores, q of round_up(d_k) floats.
template <class T>
HWY_INLINE void scores(const Sizes& sizes, const float* q, const T* k, int64_t stride, const int32_t* entry,
                       int64_t length, float* s, int64_t padded) {
  const DF d;
  for (int64_t j = 0; j < length; j += kRows) {
    const GatheredRows<T> rows(k, stride, entry, j, length);
    for (int64_t h = 0; h < sizes.heads; ++h) {
      const float* query = q + h * round_up(sizes.d_k);
      const int64_t first = h * sizes.d_k;
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for_each(d, sizes.d_k, [&](int64_t c, size_t n) HWY_ATTR {
        for (const T* next : rows.next) hwy::Prefetch(next + first + c);
        const auto x = hn::Load(d, query + c);
        s0 = hn::MulAdd(x, load(d, rows.row[0] + first + c, n), s0);
        s1 = hn::MulAdd(x, load(d, rows.row[1] + first + c, n), s1);
        s2 = hn::MulAdd(x, load(d, rows.row[2] + first + c, n), s2);
        s3 = hn::MulAdd(x, load(d, rows.row[3] + first + c, n), s3);
      });
      hn::Store(sums_of_lanes(s0, s1, s2, s3), hn::Full128<float>(), s + h * padded + j);
    }
  }
}

// s becomes softmax(s), with zeros from `length` to `padded`.
HWY_INLINE void normalise(float* s, int64_t length, int64_t padded) {
  const DF d;
  const Normaliser n = normaliser(d, s, length);
  const auto shift = hn::Set(d, n.shift), inverse = hn::Set(d, 1 / n.sum);
  for (int64_t j = 0; j < padded; j += kLanes) {
    const auto p = hn::Mul(exp(d, hn::Sub(hn::Load(d, s + j), shift)), inverse);
    hn::Store(j + kLanes <= length ? p : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(length - j)), p), d,
              s + j);
  }
}

// out[h] += sum of p[h][j] v[j][h]; out has rows of round_up(d_v) floats.
template <class T>
HWY_INLINE void weighted_sum(const Sizes& sizes, const float* p, int64_t padded, const T* v, int64_t stride,
                             const int32_t* entry, int64_t length, float* out) {
  const DF d;
  for (int64_t j = 0; j < length; j += kRows) {
    const GatheredRows<T> rows(v, stride, entry, j, length);
    for (int64_t h = 0; h < sizes.heads; ++h) {
      const float* weights = p + h * padded + j;
      const auto p0 = hn::Set(d, weights[0]), p1 = hn::Set(d, weights[1]);
      const auto p2 = hn::Set(d, weights[2]), p3 = hn::Set(d, weights[3]);
      const int64_t first = h * sizes.d_v;
      float* to = out + h * round_up(sizes.d_v);
      for_each(d, sizes.d_v, [&](int64_t c, size_t n) HWY_ATTR {
        for (const T* next : rows.next) hwy::Prefetch(next + first + c);
        const auto a = hn::MulAdd(p0, load(d, rows.row[0] + first + c, n), hn::Load(d, to + c));
        const auto b = hn::Mul(p1, load(d, rows.row[1] + first + c, n));
        const auto e = hn::MulAdd(p2, load(d, rows.row[2] + first + c, n), a);
        const auto f = hn::MulAdd(p3, load(d, rows.row[3] + first + c, n), b);
        hn::Store(hn::Add(e, f), d, to + c);
      });
    }
  }
}

}  // namespace

void attention_cached(DType t, int heads, int d_k, int d_v, int window, float scale, int64_t item_begin,
                      int64_t item_end, const void* q, int64_t q_stride, const void* k_cache, int64_t k_stride,
                      const void* v_cache, int64_t v_stride, const int32_t* entry, int64_t entry_stride,
                      const int32_t* length, void* out, int64_t out_stride) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t item = item_begin; item < item_end;) {
      const int64_t row = item / heads, head = item % heads, all = length[row];
      const int64_t count = window > 0 ? std::min<int64_t>(all, window + 1) : all;
      const Sizes sizes{std::min<int64_t>(heads - head, item_end - item), d_k, d_v};
      const int64_t k_width = round_up(d_k), v_width = round_up(d_v), padded = round_up(count);
      const auto [query, weights, sums] =
          scratch_arrays({sizes.heads * k_width, sizes.heads * padded, sizes.heads * v_width});
      for (int64_t h = 0; h < sizes.heads; ++h) {
        load_rows(static_cast<const T*>(q) + row * q_stride + (head + h) * d_k, q_stride, 1, 1, d_k, scale,
                  query + h * k_width);
      }
      std::fill_n(sums, sizes.heads * v_width, 0.0f);
      if (count > 0) {
        const int32_t* entries = entry + row * entry_stride + all - count;
        scores(sizes, query, static_cast<const T*>(k_cache) + head * d_k, k_stride, entries, count, weights, padded);
        for (int64_t h = 0; h < sizes.heads; ++h) normalise(weights + h * padded, count, padded);
        weighted_sum(sizes, weights, padded, static_cast<const T*>(v_cache) + head * d_v, v_stride, entries, count,
                     sums);
      }
      for (int64_t h = 0; h < sizes.heads; ++h) {
        store_rows(sums + h * v_width, 1, d_v, 1.0f, static_cast<T*>(out) + row * out_stride + (head + h) * d_v,
                   out_stride);
      }
      item += sizes.heads;
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_cached);

void attention_cached(DType t, int heads, int d_k, int d_v, int window, float scale, int64_t item_begin,
                      int64_t item_end, const void* q, int64_t q_stride, const void* k_cache, int64_t k_stride,
                      const void* v_cache, int64_t v_stride, const int32_t* entry, int64_t entry_stride,
                      const int32_t* length, void* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(attention_cached)
  (t, heads, d_k, d_v, window, scale, item_begin, item_end, q, q_stride, k_cache, k_stride, v_cache, v_stride, entry,
   entry_stride, length, out, out_stride);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
