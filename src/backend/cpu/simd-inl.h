// What all kernels share: float vectors over arrays of float32, bfloat16 or float16, reductions, transposing, exp, log
// and the lanes of Philox. Compiled once per instruction set by hwy/foreach_target.h, so there is no #pragma once.
//
// Instruction sets may differ in the last bits of a result only through the order of sums (more lanes, other partial
// sums); functions of one element are the same operations, and the same bits, everywhere, but for the subnormal numbers
// of RoundedBf16.

#if defined(NMT_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NMT_CPU_SIMD_INL_H
#undef NMT_CPU_SIMD_INL_H
#else
#define NMT_CPU_SIMD_INL_H
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/prefetch.h"
#include "base/error.h"
#include "base/math.h"
#include "base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using bf16 = hwy::bfloat16_t;
using f16 = hwy::float16_t;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// bf16 that the processor rounds to itself, in one instruction for nine. Numbers below the smallest normal one become
// zero, as products of bf16 take them for zero.
struct RoundedBf16 {
  bf16 value;
};

// Calls f(T()) for the element type T of an activation: float or one of bf16.
template <class F>
HWY_INLINE void with_type(DType t, F&& f) {
  if (t == DType::kF32) {
    f(float());
  } else if (t == DType::kBF16) {
#if HWY_TARGET == HWY_AVX3
    if (has_avx512_bf16()) return f(RoundedBf16());
#endif
    f(bf16());
  } else {
    check(false, "a kernel for f32 and bf16 was given {}", name_of(t));
  }
}

// ---- load and store: n lanes, never a byte more -----------------------------------------------------------------
// `n` is Lanes(d) but at the end of a row, where the lanes from n on are zero (or `fill`). Loops pass the constant, so
// that the test disappears.

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const RoundedBf16* p) {
  return load(d, &p->value);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const f16* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<f16, D>(), p));
}

// float32 to the bits of bfloat16, round to nearest even; NaN stays NaN (quiet).
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> to_bf16_bits(D /*d*/, V v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu))));
  const auto nan = hn::RebindMask(du, hn::IsNaN(v));
  return hn::TruncateTo(hn::Rebind<uint16_t, D>(), hn::IfThenElse(nan, hn::Or(high, hn::Set(du, 0x40u)), rounded));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, bf16* p) {
  hn::StoreU(to_bf16_bits(d, v), hn::Rebind<uint16_t, D>(), reinterpret_cast<uint16_t*>(p));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, RoundedBf16* p) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) {
    hn::Vec<hn::Rebind<uint16_t, D>> bits;
    asm("vcvtneps2bf16 %1, %0" : "=v"(bits.raw) : "v"(v.raw));  // GCC has it for functions of its instruction set only
    hn::StoreU(bits, hn::Rebind<uint16_t, D>(), reinterpret_cast<uint16_t*>(p));
    return;
  }
#endif
  store(d, v, &p->value);
}

template <class D>
HWY_INLINE void store(D /*d*/, hn::Vec<D> v, f16* p) {
  const hn::Rebind<f16, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, p);
}

template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* p, size_t n) {
  if (n == hn::Lanes(d)) return load(d, p);
  HWY_ALIGN T lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return load(d, lanes);
}

template <class D, class T>
HWY_INLINE hn::Vec<D> load_or(D d, float fill, const T* p, size_t n) {
  if (n == hn::Lanes(d)) return load(d, p);
  return hn::IfThenElse(hn::FirstN(d, n), load(d, p, n), hn::Set(d, fill));
}

template <class D, class T>
HWY_INLINE void store(D d, hn::Vec<D> v, T* p, size_t n) {
  if (n == hn::Lanes(d)) return store(d, v, p);
  HWY_ALIGN T lanes[hn::MaxLanes(d)];
  store(d, v, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
}

// For what is read in order, once, from memory. Between the loads of a loop that computes much, the processor looks too
// few cache lines ahead: this made dropout of large tensors twice as fast.
template <class T>
HWY_INLINE void prefetch_ahead(const T* p) {
  constexpr int64_t kBytes = 2048;
  prefetch(p, kBytes);
}

template <class D, class T>
HWY_INLINE hn::Vec<D> load_ahead(D d, const T* p, size_t n) {
  prefetch_ahead(p);
  return load(d, p, n);
}

// For what is written in order and not read before: its lines, too, come from memory first.
template <class D, class T>
HWY_INLINE void store_ahead(D d, hn::Vec<D> v, T* p, size_t n) {
  prefetch_ahead(p);
  store(d, v, p, n);
}

// ---- loops ------------------------------------------------------------------------------------------------------
// Calls f(i, lanes) for i = 0, N, 2N ... below n; `lanes` is N, in the last call what is left.
template <class D, class F>
HWY_INLINE void for_each(D d, int64_t n, F&& f) {
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + N <= n; i += N) f(i, hn::Lanes(d));
  if (i < n) f(i, static_cast<size_t>(n - i));
}

// Folds f(i, lanes) over [0, n) with `combine` in four chains, which hide the latency of the addition; lanes past the
// end must hold `start`. The order depends on n only.
template <class D, class State, class F, class Combine>
HWY_INLINE State fold(D d, int64_t n, State start, F&& f, Combine&& combine) {
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  State a = start, b = start, c = start, e = start;
  int64_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    a = combine(a, f(i, hn::Lanes(d)));
    b = combine(b, f(i + N, hn::Lanes(d)));
    c = combine(c, f(i + 2 * N, hn::Lanes(d)));
    e = combine(e, f(i + 3 * N, hn::Lanes(d)));
  }
  for (; i + N <= n; i += N) a = combine(a, f(i, hn::Lanes(d)));
  if (i < n) b = combine(b, f(i, static_cast<size_t>(n - i)));
  return combine(combine(a, b), combine(c, e));
}

template <class D>
HWY_INLINE float sum_of_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class D>
HWY_INLINE float max_of_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// Two folds in one pass.
struct VectorPair {
  VF first, second;
};

HWY_INLINE VectorPair add_pairs(VectorPair a, VectorPair b) {
  return {hn::Add(a.first, b.first), hn::Add(a.second, b.second)};
}

// Sum of f(i, lanes), whose lanes past the end are zero.
template <class D, class F>
HWY_INLINE float sum(D d, int64_t n, F&& f) {
  return sum_of_lanes(d, fold(d, n, hn::Zero(d), f, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }));
}

// The largest element; -infinity for none. NaN is not looked for: it shows in whatever is computed next.
template <class D, class T>
HWY_INLINE float max(D d, const T* x, int64_t n) {
  const auto at = [&](int64_t i, size_t lanes) HWY_ATTR {
    prefetch_ahead(x + i);
    return load_or(d, -kInfinity, x + i, lanes);
  };
  const auto larger = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  return max_of_lanes(d, fold(d, n, hn::Set(d, -kInfinity), at, larger));
}

// ---- transpose --------------------------------------------------------------------------------------------------
// A tile of N rows (one vector of y) and C columns (one 128-bit block of x): the blocks of rows i, i + C, i + 2 C ...
// make vector i; log2 C rounds of a perfect shuffle, interleaving vector i with vector i + C / 2, then transpose every
// block.
class TransposeTile {
 public:
  static constexpr int64_t kColumns = 16 / sizeof(float);

  static int64_t rows() { return static_cast<int64_t>(hn::Lanes(DF())); }

  static HWY_INLINE void transpose(const float* x, int64_t ldx, float* y, int64_t ldy) {
    const DF d;
    hn::Vec<DF> a[kColumns], b[kColumns];
    for (int64_t i = 0; i < kColumns; ++i) a[i] = gather(d, x + i * ldx, ldx);
    for (int64_t columns = kColumns; columns > 1; columns /= 2) {
      for (int64_t i = 0; i < kColumns / 2; ++i) {
        b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kColumns / 2]);
        b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kColumns / 2]);
      }
      for (int64_t i = 0; i < kColumns; ++i) a[i] = b[i];
    }
    for (int64_t i = 0; i < kColumns; ++i) hn::StoreU(a[i], d, y + i * ldy);
  }

 private:
  // The 128-bit blocks at x, x + C ldx, x + 2 C ldx ... as one vector.
  template <class DV>
  static HWY_INLINE hn::Vec<DV> gather(DV d, const float* x, int64_t ldx) {
    if constexpr (hn::MaxLanes(DV()) <= kColumns) {
      return hn::LoadU(d, x);
    } else {
      const hn::Half<DV> half;
      const auto rows = static_cast<int64_t>(hn::Lanes(half));
      return hn::Combine(d, gather(half, x + rows * ldx, ldx), gather(half, x, ldx));
    }
  }
};

// ---- functions --------------------------------------------------------------------------------------------------
// e^x with a relative error below 2e-7; below the smallest normal float (x < -87.3) zero, infinity above the largest,
// exp(0) = 1, NaN stays NaN. x = n ln 2 + r, |r| <= ln 2 / 2; e^r is a minimax polynomial (Remez) of 1 + r q(r).
// AVX-512 multiplies by 2^n, with infinity above the largest, in one instruction.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  constexpr bool kScales = HWY_TARGET == HWY_AVX3 && hn::MaxLanes(D()) == 16;
  if constexpr (kScales) x = hn::Min(hn::Set(d, 89.0f), x);  // in this order NaN stays NaN
  const auto magic = hn::Set(d, 12582912.0f);                // 1.5 * 2^23: the sum's low bits are the rounded integer
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  const auto high = hn::NegMulAdd(n, hn::Set(d, 0.693147182f), x);
  const auto r = hn::NegMulAdd(n, hn::Set(d, -1.90465421e-9f), high);
  auto p = hn::MulAdd(hn::Set(d, 0.0013955797f), r, hn::Set(d, 0.008375835f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416661027f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166664076f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto tiny = hn::Lt(x, hn::Set(d, -87.33654f));
#if HWY_TARGET == HWY_AVX3
  if constexpr (kScales) return V{_mm512_maskz_scalef_ps(static_cast<__mmask16>(~tiny.raw), p.raw, n.raw)};
#endif
  const hn::RebindToUnsigned<D> du;
  const auto power = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const auto y = hn::BitCast(d, hn::Add(hn::BitCast(du, p), power));
  const auto infinity = hn::Add(x, hn::Set(d, kInfinity));  // or NaN, where y may be any number
  const auto finite = hn::IfThenElse(hn::Le(x, hn::Set(d, 88.72283f)), y, infinity);
  return hn::IfThenElse(tiny, hn::Zero(d), finite);
}

// ln x, at most 4 units in the last place; x > 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log(D d, V x) {
  return hn::Log(d, x);
}

// The normaliser of a softmax: sum of exp(x - shift), shift = max x, or 0 where the maximum is -infinity (sum is 0
// then).
struct Normaliser {
  float shift, sum;
};

template <class D, class T>
HWY_INLINE Normaliser normaliser(D d, const T* x, int64_t n) {
  const float largest = max(d, x, n);
  const float shift = largest == -kInfinity ? 0 : largest;
  const auto s = hn::Set(d, shift);
  return {shift, sum(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
            return exp(d, hn::Sub(load_or(d, -kInfinity, x + i, lanes), s));
          })};
}

// ---- dropout ----------------------------------------------------------------------------------------------------
// The 16-bit Philox lanes of elements (see Dropout in tensor/arguments.h), made many at a time and read at any element,
// so that a loop need not begin at a block.
class DropoutLanes {
 public:
  static constexpr int64_t kElements = 1024;  // that exist at a time

  // Elements below `ahead_to` are asked for in their order, as many each time, so that those to come are made, too.
  explicit DropoutLanes(const Dropout& d, int64_t ahead_to = 0)
      : rate_(d.rate),
        site_(d.site),
        step_(d.step),
        threshold_(static_cast<int32_t>(std::lround(d.rate * 65536.0f))),
        scale_(1 / (1 - d.rate)),
        ahead_to_(ahead_to) {
    auto key0 = static_cast<uint32_t>(d.seed), key1 = static_cast<uint32_t>(d.seed >> 32);
    for (auto& key : keys_) {
      key = {key0, key1};
      key0 += Philox4x32::kWeyl0;
      key1 += Philox4x32::kWeyl1;
    }
  }

  float rate() const { return rate_; }

  // Makes the lanes of elements [first, first + n), 0 < n <= kElements, ready for what is below.
  HWY_INLINE void need(int64_t first, int64_t n) {
    if (first >= made_begin_ && first + n <= made_end_) return;
    made_begin_ = first;
    made_end_ = std::max(first + n, std::min(ahead_to_, first + kElements / n * n));
    const hn::ScalableTag<uint64_t> du64;
    const auto N = static_cast<int64_t>(hn::Lanes(du64));
    first_lane_ = first / 8 * 8;
    const auto block = static_cast<uint64_t>(first / 8);
    const int64_t blocks = divide_up(made_end_ - first_lane_, 8);
    for (int64_t b = 0; b < blocks; b += N) philox(block + static_cast<uint64_t>(b), lanes_ + 8 * b);
  }

  // Whether elements i, i + 1 ... are kept.
  template <class D>
  HWY_INLINE hn::Mask<D> kept(D d, int64_t i) const {
    const hn::RebindToSigned<D> di;
    const auto lane = hn::PromoteTo(di, hn::LoadU(hn::Rebind<uint16_t, D>(), lanes_ + (i - first_lane_)));
    return hn::RebindMask(d, hn::Gt(lane, hn::Set(di, threshold_ - 1)));
  }

  bool is_kept(int64_t i) const { return lanes_[i - first_lane_] >= threshold_; }

  // dropout(v) for elements i, i + 1 ...
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V apply(D d, V v, int64_t i) const {
    return hn::IfThenElseZero(kept(d, i), hn::Mul(v, hn::Set(d, scale_)));
  }

 private:
  // N blocks of 8 lanes. The four words of a block's state are the low halves of four 64-bit lanes (the high halves
  // hold what is not needed), as the 32 x 32 -> 64 bit multiplication reads and writes them.
  HWY_INLINE void philox(uint64_t block, uint16_t* lanes) const {
    const hn::ScalableTag<uint64_t> du64;
    const hn::Repartition<uint32_t, decltype(du64)> du32;
    const size_t N = hn::Lanes(du64);
    const auto multiply = [&](auto a, uint64_t b) HWY_ATTR {
      return hn::MulEven(hn::BitCast(du32, a), hn::BitCast(du32, hn::Set(du64, b)));
    };

    // Interleaving pairs of 64-bit lanes puts even lanes first, then odd: count the blocks in this order.
    HWY_ALIGN uint64_t order[hn::MaxLanes(du64)];
    for (size_t i = 0; i < N; ++i) order[i] = i / 2 + (i % 2) * (N / 2);
    const auto index = hn::Add(hn::Set(du64, block), hn::Load(du64, order));

    auto c0 = index, c1 = hn::ShiftRight<32>(index), c2 = hn::Set(du64, site_), c3 = hn::Set(du64, step_);
    for (const auto& key : keys_) {
      const auto p0 = multiply(c0, Philox4x32::kMultiplier0);
      const auto p1 = multiply(c2, Philox4x32::kMultiplier1);
      c0 = hn::Xor3(hn::ShiftRight<32>(p1), c1, hn::Set(du64, key[0]));
      c1 = p1;
      c2 = hn::Xor3(hn::ShiftRight<32>(p0), c3, hn::Set(du64, key[1]));
      c3 = p0;
    }
    const auto low = hn::Set(du64, 0xFFFFFFFFu);
    const auto words01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto words23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    const hn::Repartition<uint16_t, decltype(du64)> du16;
    hn::StoreU(hn::BitCast(du16, hn::InterleaveLower(du64, words01, words23)), du16, lanes);
    hn::StoreU(hn::BitCast(du16, hn::InterleaveUpper(du64, words01, words23)), du16, lanes + 4 * N);
  }

  static constexpr int64_t kSlack = 8 + 8 * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<uint64_t>()));

  const float rate_;
  std::array<std::array<uint64_t, 2>, Philox4x32::kRounds> keys_;  // of the rounds
  const uint64_t site_, step_;
  const int32_t threshold_;
  const float scale_;
  const int64_t ahead_to_;
  int64_t made_begin_ = 0, made_end_ = 0, first_lane_ = 0;
  HWY_ALIGN uint16_t lanes_[kElements + kSlack];
};

// for_each over elements first, first + 1 ...: calls f(i, lanes, drop), where drop(v) is the dropout of a vector.
template <class D, class F>
HWY_INLINE void for_each_dropped(D d, DropoutLanes& dropout, int64_t first, int64_t n, F&& f) {
  if (dropout.rate() == 0) {
    for_each(d, n, [&](int64_t i, size_t lanes) HWY_ATTR { f(i, lanes, [](auto v) HWY_ATTR { return v; }); });
    return;
  }
  for (int64_t begin = 0; begin < n; begin += DropoutLanes::kElements) {
    const int64_t length = std::min(n - begin, DropoutLanes::kElements);
    dropout.need(first + begin, length);
    for_each(d, length, [&](int64_t i, size_t lanes) HWY_ATTR {
      f(begin + i, lanes, [&](auto v) HWY_ATTR { return dropout.apply(d, v, first + begin + i); });
    });
  }
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
