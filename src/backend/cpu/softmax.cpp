#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// The exponentials are computed twice, which costs less than to keep them: in bf16 they would lose bits, and y may be
// x.
void softmax(DType t, Rows rows, int64_t width, const void* x, void* y) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* in = static_cast<const T*>(x) + r * width;
      T* out = static_cast<T*>(y) + r * width;
      const Normaliser norm = normaliser(d, in, width);
      const auto shift = hn::Set(d, norm.shift);
      const auto inverse = hn::Set(d, norm.sum == 0 ? 0 : 1 / norm.sum);
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store(d, hn::Mul(exp(d, hn::Sub(load(d, in + i, n), shift)), inverse), out + i, n);
      });
    }
  });
}

// dx = y * (dy - sum(y * dy))
void softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* p = static_cast<const T*>(y) + r * width;
      const T* dp = static_cast<const T*>(dy) + r * width;
      T* out = static_cast<T*>(dx) + r * width;
      const auto dot = hn::Set(d, sum(d, width, [&](int64_t i, size_t n) HWY_ATTR {
                                 return hn::Mul(load(d, p + i, n), load(d, dp + i, n));
                               }));
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store(d, hn::Mul(load(d, p + i, n), hn::Sub(load(d, dp + i, n), dot)), out + i, n);
      });
    }
  });
}

// The largest element is subtracted first, so that a common offset of the row costs no bits.
void log_softmax(DType t, Rows rows, int64_t width, const void* x, void* y) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* in = static_cast<const T*>(x) + r * width;
      T* out = static_cast<T*>(y) + r * width;
      const Normaliser norm = normaliser(d, in, width);
      const auto shift = hn::Set(d, norm.shift);
      const auto log_sum = hn::Set(d, norm.sum == 0 ? 0 : std::log(norm.sum));
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store(d, hn::Sub(hn::Sub(load(d, in + i, n), shift), log_sum), out + i, n);
      });
    }
  });
}

// dx = dy - exp(y) * sum(dy)
void log_softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* logp = static_cast<const T*>(y) + r * width;
      const T* dlogp = static_cast<const T*>(dy) + r * width;
      T* out = static_cast<T*>(dx) + r * width;
      const auto total = hn::Set(d, sum(d, width, [&](int64_t i, size_t n) HWY_ATTR { return load(d, dlogp + i, n); }));
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store(d, hn::NegMulAdd(exp(d, load(d, logp + i, n)), total, load(d, dlogp + i, n)), out + i, n);
      });
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(softmax);
HWY_EXPORT(softmax_backward);
HWY_EXPORT(log_softmax);
HWY_EXPORT(log_softmax_backward);

void softmax(DType t, Rows rows, int64_t width, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(softmax)(t, rows, width, x, y);
}

void softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(t, rows, width, y, dy, dx);
}

void log_softmax(DType t, Rows rows, int64_t width, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(log_softmax)(t, rows, width, x, y);
}

void log_softmax_backward(DType t, Rows rows, int64_t width, const void* y, const void* dy, void* dx) {
  HWY_DYNAMIC_DISPATCH(log_softmax_backward)(t, rows, width, y, dy, dx);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
