#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/quantise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSumOfFour = 256;  // at most, before each of them is rounded by a half or less

template <class Byte>
HWY_INLINE void store_bytes(hn::Vec<hn::Rebind<Byte, DF>> v, Byte* to, size_t n) {
  const hn::Rebind<Byte, DF> db;
  if (n == hn::Lanes(DF())) return hn::StoreU(v, db, to);
  HWY_ALIGN Byte lanes[hn::MaxLanes(db)];
  hn::StoreU(v, db, lanes);
  std::memcpy(to, lanes, n);
}

template <class T>
HWY_INLINE VectorPair least_and_largest(const T* x, int64_t width) {
  const DF d;
  const auto at = [&](int64_t i, size_t lanes) HWY_ATTR {
    prefetch_ahead(x + i);
    const auto v = load(d, x + i, lanes);
    if (lanes == hn::Lanes(d)) return VectorPair{v, v};
    const auto inside = hn::FirstN(d, lanes);
    return VectorPair{hn::IfThenElse(inside, v, hn::Set(d, kInfinity)),
                      hn::IfThenElse(inside, v, hn::Set(d, -kInfinity))};
  };
  const VectorPair start{hn::Set(d, kInfinity), hn::Set(d, -kInfinity)};
  return fold(d, width, start, at, [](VectorPair a, VectorPair b) HWY_ATTR {
    return VectorPair{hn::Min(a.first, b.first), hn::Max(a.second, b.second)};
  });
}

// The largest sum of the numbers of one sign among four, as kernels.h says of quantise_weight().
HWY_INLINE float largest_of_fours(const float* x, int64_t width) {
  const DF d;
  const auto fours = [&](hn::Vec<DF> v) HWY_ATTR {
    v = hn::Add(v, hn::SwapAdjacentBlocks(v));
    return hn::Add(v, hn::Reverse2(d, v));
  };
  auto largest = hn::Zero(d);
  for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
    const auto v = load(d, x + i, n), zero = hn::Zero(d);
    largest = hn::Max(largest, hn::Max(fours(hn::Max(v, zero)), fours(hn::Max(hn::Neg(v), zero))));
  });
  return max_of_lanes(d, largest);
}

}  // namespace

void quantise_rows(DType t, Rows rows, int64_t width, int levels, const void* x, uint8_t* q, int64_t q_stride,
                   RowScale* scales) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint8_t, DF> bytes;
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* row = static_cast<const T*>(x) + r * width;
      uint8_t* to = q + r * q_stride;
      std::fill(to + width, to + q_stride, uint8_t{0});
      if (width == 0) {
        scales[r] = {0, 0};
        continue;
      }
      const VectorPair ends = least_and_largest(row, width);
      const float low = hn::GetLane(hn::MinOfLanes(d, ends.first)), range = max_of_lanes(d, ends.second) - low;
      scales[r] = {low, range / static_cast<float>(levels)};
      auto not_finite = hn::Zero(d);  // then NaN: least and largest do not tell of it
      const auto from = hn::Set(d, low),
                 factor = hn::Set(d, range > 0 ? std::min(static_cast<float>(levels) / range, kLargest) : 0);
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        // The low bits of the sum with 1.5 * 2^23 are the nearest integer.
        const auto v = hn::Mul(hn::Sub(load(d, row + i, n), from), factor);
        not_finite = hn::Add(not_finite, hn::Sub(v, v));
        store_bytes<uint8_t>(hn::TruncateTo(bytes, hn::BitCast(du, hn::Add(v, hn::Set(d, 12582912.0f)))), to + i, n);
      });
      scales[r].step += sum_of_lanes(d, not_finite);
    }
  });
}

void quantise_weight(Rows rows, int64_t width, bool fours, const float* w, int8_t* q, float* scale, float* sum) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* row = w + r * width;
    int8_t* to = q + r * width;
    const VectorPair ends = least_and_largest(row, width);
    float largest = std::max(-hn::GetLane(hn::MinOfLanes(d, ends.first)), max_of_lanes(d, ends.second));
    if (fours) largest = std::max(largest, largest_of_fours(row, width) * (127.f / kSumOfFour));
    const auto factor = hn::Set(d, largest > 0 ? std::min(127 / largest, kLargest) : 0);
    auto integers = hn::Zero(di);
    for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
      const auto v = hn::NearestInt(hn::Mul(load(d, row + i, n), factor));
      integers = hn::Add(integers, v);
      store_bytes<int8_t>(hn::DemoteTo(hn::Rebind<int8_t, DF>(), v), to + i, n);
    });
    scale[r] = largest > 0 ? largest / 127 : 0;
    sum[r] = scale[r] * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, integers)));
  }
}

void dequantise(DType t, int64_t count, int64_t width, const int32_t* sums, int64_t lds, const RowScale* rows,
                const float* scale, const float* sum, const float* bias, bool relu, void* y, int64_t ldy) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t r = 0; r < count; ++r) {
      T* to = static_cast<T*>(y) + r * ldy;
      const int32_t* from = sums + r * lds;
      const auto step = hn::Set(d, rows[r].step), low = hn::Set(d, rows[r].low);
      for_each(d, width, [&](int64_t c, size_t n) HWY_ATTR {
        HWY_ALIGN int32_t lanes[hn::MaxLanes(di)] = {};
        if (n != hn::Lanes(d)) std::memcpy(lanes, from + c, n * sizeof(int32_t));
        const auto integers = n == hn::Lanes(d) ? hn::LoadU(di, from + c) : hn::Load(di, lanes);
        auto v = hn::Mul(hn::Mul(hn::ConvertTo(d, integers), step), load(d, scale + c, n));
        v = hn::MulAdd(low, load(d, sum + c, n), v);
        if (bias != nullptr) v = hn::Add(v, load(d, bias + c, n));
        if (relu) v = hn::Max(hn::Zero(d), v);  // in this order NaN stays NaN
        store(d, v, to + c, n);
      });
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(quantise_rows);
HWY_EXPORT(quantise_weight);
HWY_EXPORT(dequantise);

void quantise_rows(DType t, Rows rows, int64_t width, int levels, const void* x, uint8_t* q, int64_t q_stride,
                   RowScale* scales) {
  HWY_DYNAMIC_DISPATCH(quantise_rows)(t, rows, width, levels, x, q, q_stride, scales);
}

void quantise_weight(Rows rows, int64_t width, bool fours, const float* w, int8_t* q, float* scale, float* sum) {
  HWY_DYNAMIC_DISPATCH(quantise_weight)(rows, width, fours, w, q, scale, sum);
}

void dequantise(DType t, int64_t count, int64_t width, const int32_t* sums, int64_t lds, const RowScale* rows,
                const float* scale, const float* sum, const float* bias, bool relu, void* y, int64_t ldy) {
  HWY_DYNAMIC_DISPATCH(dequantise)(t, count, width, sums, lds, rows, scale, sum, bias, relu, y, ldy);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
