// Attention of few queries to many keys, as in a step of decoding. The time goes into reading keys and values: they are
// used as they lie, a few rows at a time over all heads, from first to last column. Compiled once per instruction set.

#if defined(NMT_CPU_FEW_QUERIES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NMT_CPU_FEW_QUERIES_INL_H
#undef NMT_CPU_FEW_QUERIES_INL_H
#else
#define NMT_CPU_FEW_QUERIES_INL_H
#endif

#include <array>
#include <utility>

#include "backend/cpu/attention-inl.h"
#include "backend/cpu/prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// Queries that read the same rows together: these come from memory once, while what is made of them keeps the processor
// busy.
constexpr int kQueriesTogether = 4;
// Those of them whose sums of four keys each are in registers at a time, of which AVX-512 has 32.
constexpr int kQueriesInRegisters = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// Where the row of a query's key j is. end_of_shared(): of the keys from `begin` on, those that `count` queries from
// this one on have in common, up to `length` or a multiple of four.
template <class T>
struct RowsInOrder {
  const T* rows;
  int64_t stride;
  HWY_INLINE const T* at(int64_t /*query*/, int64_t j) const { return rows + j * stride; }
  HWY_INLINE int64_t end_of_shared(int64_t /*query*/, int /*count*/, int64_t /*begin*/, int64_t length) const {
    return length;
  }
};
template <class T>
struct RowsByEntry {
  const T* rows;
  int64_t stride;
  const int32_t* entry;  // [queries, entry_stride]
  int64_t entry_stride;
  HWY_INLINE const T* at(int64_t query, int64_t j) const { return rows + entry[query * entry_stride + j] * stride; }
  HWY_INLINE int64_t end_of_shared(int64_t query, int count, int64_t begin, int64_t length) const {
    const int32_t* const first = entry + query * entry_stride;
    int64_t end = length;
    for (int i = 1; i < count; ++i)
      end = std::mismatch(first + begin, first + end, first + i * entry_stride + begin).first - first;
    return end == length ? end : end / 4 * 4;
  }
};

// Rows j .. j + 3, and the four from j + kAhead on, which are fetched meanwhile: the processor does not foresee them,
// and memory takes longer than four rows do. Past the last row stands the last again: its score is not used, its weight
// zero.
template <class T>
struct FourRows {
  template <class Rows>
  HWY_INLINE FourRows(const Rows& rows, int64_t query, int64_t j, int64_t length) {
    for (int64_t i = 0; i < kCount; ++i) {
      row[i] = rows.at(query, std::min(j + i, length - 1));
      next[i] = rows.at(query, std::min(j + kAhead + i, length - 1));
    }
  }

  // n lanes of each at a column. kFetches: while those of `next` are fetched.
  template <bool kFetches>
  HWY_INLINE std::array<VF, 4> load_at(int64_t column, size_t n) const {
    const DF d;
    if constexpr (kFetches)
      for (const T* p : next) prefetch_far(p + column, 0);
    return {load(d, row[0] + column, n), load(d, row[1] + column, n), load(d, row[2] + column, n),
            load(d, row[3] + column, n)};
  }

  static constexpr int64_t kCount = 4, kAhead = 8;
  const T *row[kCount], *next[kCount];
};
template <class Rows>
FourRows(const Rows&, int64_t, int64_t, int64_t)
    -> FourRows<std::remove_cvref_t<decltype(*std::declval<Rows>().at(0, 0))>>;

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

// So many heads side by side in the rows of keys and values; `queries` of each.
struct FewQueries {
  int64_t heads, d_k, d_v, queries;

  // [heads, queries] rows, all of whole vectors: scaled queries, the keys' weights, which add up to their normaliser,
  // and sums of values.
  struct Arrays {
    float *queries, *weights, *normalisers, *sums;
  };
  HWY_INLINE Arrays arrays(int64_t keys) const {
    const int64_t rows = heads * queries;
    Arrays x;
    cut_scratch({{&x.queries, rows * round_up(d_k)},
                 {&x.weights, rows * round_up(keys)},
                 {&x.normalisers, rows},
                 {&x.sums, rows * round_up(d_v)}});
    return x;
  }
};

// Rows of queries of so many heads, to x.queries.
template <class T>
HWY_INLINE void load_queries(const FewQueries& f, const T* q, int64_t stride, float scale,
                             const FewQueries::Arrays& x) {
  for (int64_t h = 0; h < f.heads; ++h)
    load_rows(q + h * f.d_k, stride, f.queries, f.queries, f.d_k, scale, x.queries + h * f.queries * round_up(f.d_k));
}

// The scores of four keys, whose rows have a head at `column`, for kQueries rows of x.queries from `row` on.
template <int kQueries, bool kFetches, class T>
HWY_INLINE void four_scores(const FewQueries& f, const FourRows<T>& keys, int64_t column, int64_t row, int64_t j,
                            int64_t padded, const FewQueries::Arrays& x) {
  const DF d;
  const int64_t width = round_up(f.d_k);
  const float* q = x.queries + row * width;
  VF sums[kQueries][4];
  for (auto& of_query : sums)
    for (VF& sum : of_query) sum = hn::Zero(d);
  for_each(d, f.d_k, [&](int64_t c, size_t n) HWY_ATTR {
    const auto k = keys.template load_at<kFetches>(column + c, n);
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      const auto query = hn::Load(d, q + r * width + c);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sums[r][i] = hn::MulAdd(query, k[i], sums[r][i]);
    }
  });
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r)
    hn::Store(sums_of_lanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3]), hn::Full128<float>(),
              x.weights + (row + r) * padded + j);
}

// The same rows of x.sums += the sum of four values, by their weights.
template <int kQueries, bool kFetches, class T>
HWY_INLINE void add_four_values(const FewQueries& f, const FourRows<T>& values, int64_t column, int64_t row, int64_t j,
                                int64_t padded, const FewQueries::Arrays& x) {
  const DF d;
  const int64_t width = round_up(f.d_v);
  float* const sums = x.sums + row * width;
  VF p[kQueries][4];
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) p[r][i] = hn::Set(d, x.weights[(row + r) * padded + j + i]);
  // By value, else GCC keeps in memory what the loop uses.
  for_each(d, f.d_v, [=](int64_t c, size_t n) HWY_ATTR {
    const auto v = values.template load_at<kFetches>(column + c, n);
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      float* to = sums + r * width + c;
      const auto even = hn::MulAdd(p[r][2], v[2], hn::MulAdd(p[r][0], v[0], hn::Load(d, to)));
      const auto odd = hn::MulAdd(p[r][3], v[3], hn::Mul(p[r][1], v[1]));
      hn::Store(hn::Add(even, odd), d, to);
    }
  });
}

// weights[h][r][j] = q[h][r] . k[j][h], of the queries first .. first + kQueries and the keys from `begin` on: of all
// these queries together as far as they share keys, then of each half.
template <int kQueries, class Rows>
HWY_INLINE void scores(const FewQueries& f, int64_t first, const Rows& keys, int64_t begin, int64_t length,
                       const FewQueries::Arrays& x) {
  constexpr int kInRegisters = std::min(kQueries, kQueriesInRegisters);
  const int64_t padded = round_up(length);
  const int64_t end = keys.end_of_shared(first, kQueries, begin, length);
  for (int64_t j = begin; j < end; j += 4) {
    const FourRows rows(keys, first, j, length);
    for (int64_t h = 0; h < f.heads; ++h) {
      const int64_t row = h * f.queries + first;
      four_scores<kInRegisters, true>(f, rows, h * f.d_k, row, j, padded, x);
      if constexpr (kQueries > kInRegisters)
        four_scores<kInRegisters, false>(f, rows, h * f.d_k, row + kInRegisters, j, padded, x);
    }
  }
  if constexpr (kQueries > 1) {
    if (end == length) return;
    for (int64_t half : {0, kQueries / 2}) scores<kQueries / 2>(f, first + half, keys, end, length, x);
  }
}

// sums[h][r] += sum of weights[h][r][j] v[j][h], as scores().
template <int kQueries, class Rows>
HWY_INLINE void weighted_sums(const FewQueries& f, int64_t first, const Rows& values, int64_t begin, int64_t length,
                              const FewQueries::Arrays& x) {
  constexpr int kInRegisters = std::min(kQueries, kQueriesInRegisters);
  const int64_t padded = round_up(length);
  const int64_t end = values.end_of_shared(first, kQueries, begin, length);
  for (int64_t j = begin; j < end; j += 4) {
    const FourRows rows(values, first, j, length);
    for (int64_t h = 0; h < f.heads; ++h) {
      const int64_t row = h * f.queries + first;
      add_four_values<kInRegisters, true>(f, rows, h * f.d_v, row, j, padded, x);
      if constexpr (kQueries > kInRegisters)
        add_four_values<kInRegisters, false>(f, rows, h * f.d_v, row + kInRegisters, j, padded, x);
    }
  }
  if constexpr (kQueries > 1) {
    if (end == length) return;
    for (int64_t half : {0, kQueries / 2}) weighted_sums<kQueries / 2>(f, first + half, values, end, length, x);
  }
}

// Weights, normalisers and sums of the queries from `first` on, of keys and values 0 .. length - 1; of no keys: zeros.
template <int kTogether, class Rows>
HWY_INLINE void attend_to_rows(const FewQueries& f, int64_t first, const Rows& keys, const Rows& values, int64_t length,
                               const FewQueries::Arrays& x) {
  for (; first + kTogether <= f.queries; first += kTogether) {
    scores<kTogether>(f, first, keys, 0, length, x);
    for (int64_t h = 0; h < f.heads; ++h)
      for (int64_t row = h * f.queries + first; row < h * f.queries + first + kTogether; ++row) {
        float* const weights = x.weights + row * round_up(length);
        x.normalisers[row] = exponentials<false>(weights, 1, length, round_up(length), nullptr, 0).sum;
        std::fill_n(x.sums + row * round_up(f.d_v), round_up(f.d_v), 0.0f);
      }
    weighted_sums<kTogether>(f, first, values, 0, length, x);
  }
  if constexpr (kTogether > 1) attend_to_rows<kTogether / 2>(f, first, keys, values, length, x);
}

// Sums over normalisers, which is what attention makes of query r: row r of out. Of no keys: zeros.
template <class T>
HWY_INLINE void store_attended(const FewQueries& f, const FewQueries::Arrays& x, T* out, int64_t stride) {
  for (int64_t h = 0; h < f.heads; ++h)
    for (int64_t r = 0; r < f.queries; ++r) {
      const int64_t row = h * f.queries + r;
      const float factor = x.normalisers[row] == 0 ? 0 : 1 / x.normalisers[row];
      store_rows(x.sums + row * round_up(f.d_v), 1, f.d_v, factor, out + r * stride + h * f.d_v, stride);
    }
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
