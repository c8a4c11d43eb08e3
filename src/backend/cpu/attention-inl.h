// What all kinds of attention share, forward and backward: an item's rows as float32 matrices in scratch memory, filled
// up to whole vectors with zeros, the dropout of its weights, softmax and its gradient. Compiled once per instruction
// set.

#if defined(NMT_CPU_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NMT_CPU_ATTENTION_INL_H
#undef NMT_CPU_ATTENTION_INL_H
#else
#define NMT_CPU_ATTENTION_INL_H
#endif

#include <hwy/cache_control.h>

#include "backend/cpu/attention_product.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd-inl.h"
#include "base/math.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void multiply_small(const SmallProduct& p);  // attention_product.cpp

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
static_assert(kLanes * sizeof(float) <= kScratchAlignment);

constexpr int64_t round_up(int64_t n) { return nmt::round_up(n, kLanes); }

// A row length, in floats, for n columns. Rows a multiple of 512 bytes apart would share few sets of the cache.
constexpr int64_t row_length(int64_t n) { return round_up(n) % 128 == 0 ? round_up(n) + kLanes : round_up(n); }

// Queries whose scores are in scratch at a time: few enough to stay in the cache, enough to use a key well.
// With a window no more than it has positions: the block's queries together see few keys that not all of them see.
inline int64_t query_block(int64_t queries, int64_t keys, const KeyMask& mask) {
  constexpr int64_t kScores = 8192, kFewest = 24;
  if (queries <= kFewest) return queries;
  int64_t most = std::max(kFewest, kScores / std::max<int64_t>(1, round_up(keys)));
  if (mask.window > 0) most = std::min(most, std::max<int64_t>(kFewest, mask.window));
  return divide_up(queries, divide_up(queries, most));
}

// A (sentence, head): first rows, numbers of rows, and the element of its first weight for dropout.
struct Item {
  Item(const Attention& a, int64_t item)
      : head(item % a.heads),
        q_first(a.q_begin[item / a.heads]),
        k_first(a.k_begin[item / a.heads]),
        queries(a.q_begin[item / a.heads + 1] - q_first),
        keys(a.k_begin[item / a.heads + 1] - k_first),
        weight_first(head * a.weight_begin[a.sentences] + a.weight_begin[item / a.heads]),
        q_at(q_first * a.q_stride + head * a.d_k),
        k_at(k_first * a.k_stride + head * a.d_k),
        v_at(k_first * a.v_stride + head * a.d_v),
        out_at(q_first * a.out_stride + head * a.d_v),
        logsumexp_at(head * a.q_begin[a.sentences] + q_first) {}

  int64_t head, q_first, k_first, queries, keys, weight_first;
  int64_t q_at, k_at, v_at, out_at, logsumexp_at;  // where its rows begin in the arguments
};

// What a block of queries sees: `count` keys from `first` on, where a vector begins. Rows of scores have these keys
// alone.
struct SeenKeys {
  SeenKeys(const KeyMask& mask, const Item& item, int64_t begin, int64_t rows)
      : mask(mask),
        keys(item.keys),
        first(mask.first(begin) / kLanes * kLanes),
        count(std::max<int64_t>(0, mask.end(begin + rows - 1, keys) - first)) {}

  // Of these, query i sees hidden(i) .. valid(i).
  int64_t hidden(int64_t i) const { return std::min(mask.first(i) - first, count); }
  int64_t valid(int64_t i) const {  // 0: none of them
    const int64_t end = mask.end(i, keys) - first;
    return end > hidden(i) ? end : 0;
  }

  KeyMask mask;
  int64_t keys, first, count;
};

// Fetches rows that the next item reads or writes: they are too short for the processor to foresee the next ones.
template <class T>
HWY_INLINE void fetch_rows(const T* x, int64_t stride, int64_t rows, int64_t width) {
  constexpr int64_t kMostRows = 64, kLine = 64 / sizeof(T);  // of more, the first would be gone again
  for (int64_t r = 0; r < std::min(rows, kMostRows); ++r) {
    for (int64_t c = 0; c < width; c += kLine) hwy::Prefetch(x + r * stride + c);
  }
}

// to[r][c] = factor * from[r][c]; the columns up to whole vectors and the rows up to `rows_to` are zero.
template <class T>
HWY_INLINE void load_rows(const T* from, int64_t stride, int64_t rows, int64_t rows_to, int64_t width, float factor,
                          float* to) {
  const DF d;
  const int64_t length = round_up(width);
  const auto f = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r) {
    for_each(d, width, [&](int64_t c, size_t n) HWY_ATTR {
      hn::Store(hn::Mul(f, load(d, from + r * stride + c, n)), d, to + r * length + c);
    });
  }
  std::fill(to + rows * length, to + rows_to * length, 0.0f);
}

// to[r][c] = factor * from[r][c].
template <class T>
HWY_INLINE void store_rows(const float* from, int64_t rows, int64_t width, float factor, T* to, int64_t stride) {
  const DF d;
  const int64_t length = round_up(width);
  const auto f = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r) {
    for_each(d, width, [&](int64_t c, size_t n) HWY_ATTR {
      store(d, hn::Mul(f, hn::Load(d, from + r * length + c)), to + r * stride + c, n);
    });
  }
}

// to[c][r] = from[r][c]; whole vectors of rows and of columns.
HWY_INLINE void transpose_rows(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to,
                               int64_t to_row) {
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t c = 0; c < columns; c += TransposeTile::kColumns)
      TransposeTile::transpose(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
  }
}

// Which weights of an item dropout keeps. Masked rows of long sentences are made one by one, so that what no query sees
// costs nothing.
HWY_INLINE DropoutLanes kept_weights(const Attention& a, const Item& item) {
  constexpr int64_t kLong = 128;
  const bool all = a.mask == KeyMask() || item.keys < kLong;
  return DropoutLanes(a.dropout, all ? item.weight_first + item.queries * item.keys : 0);
}

// From scores to exp(score - shift), those dropped zero; from `valid` to `padded` zeros. shift and sum (of all, also
// the dropped) as in simd-inl.h.
template <bool kDropout>
HWY_INLINE Normaliser exponentials(float* s, int64_t valid, int64_t padded, DropoutLanes* kept, int64_t element) {
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
      if (j % DropoutLanes::kElements == 0) kept->need(element + j, std::min(valid - j, DropoutLanes::kElements));
      e = hn::IfThenElseZero(kept->kept(d, element + j), e);
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

// One query, with p = exp(s - logsumexp) and m = 1 where dropout keeps a weight, else 0:
//   dw = dp * m * kept_scale, D = sum of p * dw, ds = p * (dw - D); s becomes p * m and dp becomes ds.
// From `valid` to `padded` both are zero.
template <bool kDropout>
HWY_INLINE void row_gradient(float* s, float* dp, int64_t valid, int64_t padded, float logsumexp, float kept_scale,
                             DropoutLanes* kept, int64_t element) {
  const DF d;
  const auto shift = hn::Set(d, logsumexp), scale = hn::Set(d, kept_scale);
  const auto tail = hn::FirstN(d, static_cast<size_t>(valid % kLanes));
  const int64_t whole = valid / kLanes * kLanes;

  auto sum = hn::Zero(d);
  const auto step = [&](int64_t j, auto p, auto dw) HWY_ATTR {
    if constexpr (kDropout) {
      if (j % DropoutLanes::kElements == 0) kept->need(element + j, std::min(valid - j, DropoutLanes::kElements));
      const auto keep = kept->kept(d, element + j);
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

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
