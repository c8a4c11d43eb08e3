// What all kinds of attention share, forward and backward: an item's rows as float32 matrices in scratch memory, filled
// up to whole vectors with zeros, the dropout of its weights, softmax and its gradient. Compiled once per instruction
// set.

#if defined(NMT_CPU_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NMT_CPU_ATTENTION_INL_H
#undef NMT_CPU_ATTENTION_INL_H
#else
#define NMT_CPU_ATTENTION_INL_H
#endif

#include <type_traits>

#include "backend/cpu/attention_items.h"
#include "backend/cpu/attention_product.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/simd-inl.h"
#include "base/math.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void multiply_small(const SmallProduct& p);  // attention_product.cpp

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));
static_assert(kLanes * sizeof(float) <= kAlignment);

constexpr int64_t round_up(int64_t n) { return nmt::round_up(n, kLanes); }

// Whether rows of T may be multiplied by AMX, which all its processors do beside AVX-512.
template <class T>
constexpr bool kHasAmx = (HWY_TARGET == HWY_AVX3) && std::is_same_v<T, RoundedBf16>;

// In floats, for n columns.
constexpr int64_t row_length(int64_t n) { return apart(round_up(n)); }

constexpr int64_t kFewestQueries = 24;  // of a block, unless it has all

// Fetches rows that the next item reads or writes: they are too short for the processor to foresee the next ones.
template <class T>
HWY_INLINE void fetch_rows(const T* x, int64_t stride, int64_t rows, int64_t width) {
  constexpr int64_t kMostRows = 64, kLine = 64 / sizeof(T);  // of more, the first would be gone again
  for (int64_t r = 0; r < std::min(rows, kMostRows); ++r) {
    for (int64_t c = 0; c < width; c += kLine) prefetch_far(x + r * stride + c, 0);
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

// From scores s to exp(scale * s - shift), those dropped zero; from `valid` to `padded` zeros. scale is positive; shift
// and sum (of all, also the dropped) as in simd-inl.h.
template <bool kDropout>
HWY_INLINE Normaliser exponentials(float* s, float scale, int64_t valid, int64_t padded, DropoutLanes* kept,
                                   int64_t element) {
  const DF d;
  const auto tail = hn::FirstN(d, static_cast<size_t>(valid % kLanes));
  const int64_t whole = valid / kLanes * kLanes;
  auto largest = hn::Set(d, -kInfinity);
  for (int64_t j = 0; j < whole; j += kLanes) largest = hn::Max(largest, hn::Load(d, s + j));
  if (whole < valid) largest = hn::Max(largest, hn::IfThenElse(tail, hn::Load(d, s + whole), largest));
  const float max = max_of_lanes(d, largest);
  const float shift = max == -kInfinity ? 0 : scale * max;
  const auto factor = hn::Set(d, scale), shifts = hn::Set(d, shift);

  auto sum = hn::Zero(d);
  const auto step = [&](int64_t j, auto e) HWY_ATTR {
    sum = hn::Add(sum, e);
    if constexpr (kDropout) {
      if (j % DropoutLanes::kElements == 0) kept->need(element + j, std::min(valid - j, DropoutLanes::kElements));
      e = hn::IfThenElseZero(kept->kept(d, element + j), e);
    }
    hn::Store(e, d, s + j);
  };
  for (int64_t j = 0; j < whole; j += kLanes) step(j, exp(d, hn::MulSub(factor, hn::Load(d, s + j), shifts)));
  if (whole < valid) {
    step(whole, hn::IfThenElseZero(tail, exp(d, hn::MulSub(factor, hn::Load(d, s + whole), shifts))));
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

// One query, with p = exp(scale * s - logsumexp) and m = 1 where dropout keeps a weight, else 0:
//   dw = dp * m * kept_scale, D = sum of p * dw, ds = p * (dw - D); s becomes p * m and dp becomes ds.
// From `valid` to `padded` both are zero.
template <bool kDropout>
HWY_INLINE void row_gradient(float* s, float* dp, float scale, int64_t valid, int64_t padded, float logsumexp,
                             float kept_scale, DropoutLanes* kept, int64_t element) {
  const DF d;
  const auto factor = hn::Set(d, scale), shift = hn::Set(d, logsumexp), kept_factor = hn::Set(d, kept_scale);
  const auto tail = hn::FirstN(d, static_cast<size_t>(valid % kLanes));
  const int64_t whole = valid / kLanes * kLanes;

  auto sum = hn::Zero(d);
  const auto step = [&](int64_t j, auto p, auto dw) HWY_ATTR {
    if constexpr (kDropout) {
      if (j % DropoutLanes::kElements == 0) kept->need(element + j, std::min(valid - j, DropoutLanes::kElements));
      const auto keep = kept->kept(d, element + j);
      dw = hn::IfThenElseZero(keep, hn::Mul(dw, kept_factor));
      sum = hn::MulAdd(p, dw, sum);
      p = hn::IfThenElse(keep, p, hn::Neg(p));  // p >= 0: the sign keeps m
    } else {
      sum = hn::MulAdd(p, dw, sum);
    }
    hn::Store(p, d, s + j);
    hn::Store(dw, d, dp + j);
  };
  for (int64_t j = 0; j < whole; j += kLanes) {
    step(j, exp(d, hn::MulSub(factor, hn::Load(d, s + j), shift)), hn::Load(d, dp + j));
  }
  if (whole < valid) {
    step(whole, hn::IfThenElseZero(tail, exp(d, hn::MulSub(factor, hn::Load(d, s + whole), shift))),
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
