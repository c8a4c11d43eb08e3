#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void dropout_mask(const Dropout& dropout, int64_t begin, int64_t end, uint8_t* mask) {
  DropoutLanes lanes(dropout, end);
  for (int64_t first = begin; first < end; first += DropoutLanes::kElements) {
    const int64_t n = std::min(end - first, DropoutLanes::kElements);
    lanes.need(first, n);
    for (int64_t i = first; i < first + n; ++i) mask[i - begin] = lanes.is_kept(i);
  }
}

void dropout(DType t, const Dropout& dropout, int64_t begin, int64_t end, const void* x, void* y) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const T* in = static_cast<const T*>(x) + begin;
    T* out = static_cast<T*>(y) + begin;
    const DF d;
    DropoutLanes lanes(dropout, end);
    for_each_dropped(d, lanes, begin, end - begin, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
      store_ahead(d, drop(load_ahead(d, in + i, n)), out + i, n);
    });
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(dropout_mask);
HWY_EXPORT(dropout);

void dropout_mask(const Dropout& d, int64_t begin, int64_t end, uint8_t* mask) {
  HWY_DYNAMIC_DISPATCH(dropout_mask)(d, begin, end, mask);
}

void dropout(DType t, const Dropout& d, int64_t begin, int64_t end, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(dropout)(t, d, begin, end, x, y);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
