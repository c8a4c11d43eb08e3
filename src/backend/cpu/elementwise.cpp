#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// y = f(x) and y = f(a, b), element by element.
template <class F>
HWY_INLINE void map(DType t, int64_t begin, int64_t end, const void* x, void* y, F&& f) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const T* in = static_cast<const T*>(x) + begin;
    T* out = static_cast<T*>(y) + begin;
    const DF d;
    for_each(d, end - begin,
             [&](int64_t i, size_t n) HWY_ATTR { store_ahead(d, f(load_ahead(d, in + i, n)), out + i, n); });
  });
}

template <class F>
HWY_INLINE void map(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y, F&& f) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const T* left = static_cast<const T*>(a) + begin;
    const T* right = static_cast<const T*>(b) + begin;
    T* out = static_cast<T*>(y) + begin;
    const DF d;
    for_each(d, end - begin, [&](int64_t i, size_t n) HWY_ATTR {
      store_ahead(d, f(load_ahead(d, left + i, n), load_ahead(d, right + i, n)), out + i, n);
    });
  });
}

void relu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  map(t, begin, end, x, y, [](VF v) HWY_ATTR { return hn::Max(hn::Zero(DF()), v); });  // in this order NaN stays NaN
}

void relu_backward(DType t, int64_t begin, int64_t end, const void* y, const void* dy, void* dx) {
  map(t, begin, end, y, dy, dx, [](VF v, VF dv) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, hn::Zero(DF())), dv); });
}

// The standard normal distribution function Phi(x) and e^(-x^2 / 2). Phi(-a) = e^(-a^2 / 2) R(t), t = 1 / (1 + 0.3 a),
// where R is a minimax polynomial (Remez) for 0 <= a <= 14: relative error below 1e-7, as long as the exponential is a
// normal float.
struct Normal {
  VF distribution, exponential;
};

HWY_INLINE Normal normal(VF x) {
  const DF d;
  const auto one = hn::Set(d, 1.0f);
  const auto exponential = exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.3f), one));
  auto p = hn::MulAdd(t, hn::Set(d, 0.038378279f), hn::Set(d, -0.16916606f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.22865999f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.076506381f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.14253546f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.094683546f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.12192034f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.11948769f));
  p = hn::MulAdd(p, t, hn::Set(d, 7.1688443e-6f));
  const auto tail = hn::Mul(p, exponential);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), exponential};
}

void gelu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  map(t, begin, end, x, y, [](VF v) HWY_ATTR { return hn::Mul(v, normal(v).distribution); });
}

// d/dx x Phi(x) = Phi(x) + x phi(x), with phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
void gelu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  map(t, begin, end, x, dy, dx, [](VF v, VF dv) HWY_ATTR {
    const Normal n = normal(v);
    const auto density = hn::Mul(n.exponential, hn::Set(DF(), 0.398942280f));
    return hn::Mul(dv, hn::MulAdd(v, density, n.distribution));
  });
}

HWY_INLINE VF sigmoid(VF x) {
  const DF d;
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

void silu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  map(t, begin, end, x, y, [](VF v) HWY_ATTR { return hn::Mul(v, sigmoid(v)); });
}

// d/dx x s(x) = s + x s (1 - s)
void silu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  map(t, begin, end, x, dy, dx, [](VF v, VF dv) HWY_ATTR {
    const auto s = sigmoid(v);
    return hn::Mul(dv, hn::MulAdd(hn::Mul(v, s), hn::Sub(hn::Set(DF(), 1.0f), s), s));
  });
}

void add(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y) {
  map(t, begin, end, a, b, y, [](VF u, VF v) HWY_ATTR { return hn::Add(u, v); });
}

void multiply(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y) {
  map(t, begin, end, a, b, y, [](VF u, VF v) HWY_ATTR { return hn::Mul(u, v); });
}

void scale(DType t, int64_t begin, int64_t end, const void* x, float factor, void* y) {
  map(t, begin, end, x, y, [factor](VF v) HWY_ATTR { return hn::Mul(v, hn::Set(DF(), factor)); });
}

void add_f32(int64_t begin, int64_t end, const float* x, float* y) { add(DType::kF32, begin, end, x, y, y); }

// Rows are added one after the other, four to a pass over the sums.
void column_sums(DType t, Rows rows, int64_t width, const void* x, float* sums) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const T* row = static_cast<const T*>(x) + rows.begin * width;
    int64_t r = rows.begin;
    for (; r + 4 <= rows.end; r += 4, row += 4 * width) {
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        auto s = load(d, sums + i, n);
        for (int64_t k = 0; k < 4; ++k) s = hn::Add(s, load_ahead(d, row + k * width + i, n));
        store(d, s, sums + i, n);
      });
    }
    for (; r < rows.end; ++r, row += width) {
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store(d, hn::Add(load(d, sums + i, n), load(d, row + i, n)), sums + i, n);
      });
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(relu);
HWY_EXPORT(relu_backward);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_backward);
HWY_EXPORT(silu);
HWY_EXPORT(silu_backward);
HWY_EXPORT(add);
HWY_EXPORT(multiply);
HWY_EXPORT(scale);
HWY_EXPORT(add_f32);
HWY_EXPORT(column_sums);

void relu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(relu)(t, begin, end, x, y);
}

void relu_backward(DType t, int64_t begin, int64_t end, const void* y, const void* dy, void* dx) {
  HWY_DYNAMIC_DISPATCH(relu_backward)(t, begin, end, y, dy, dx);
}

void gelu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(gelu)(t, begin, end, x, y);
}

void gelu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  HWY_DYNAMIC_DISPATCH(gelu_backward)(t, begin, end, x, dy, dx);
}

void silu(DType t, int64_t begin, int64_t end, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(silu)(t, begin, end, x, y);
}

void silu_backward(DType t, int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  HWY_DYNAMIC_DISPATCH(silu_backward)(t, begin, end, x, dy, dx);
}

void add(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y) {
  HWY_DYNAMIC_DISPATCH(add)(t, begin, end, a, b, y);
}

void multiply(DType t, int64_t begin, int64_t end, const void* a, const void* b, void* y) {
  HWY_DYNAMIC_DISPATCH(multiply)(t, begin, end, a, b, y);
}

void scale(DType t, int64_t begin, int64_t end, const void* x, float factor, void* y) {
  HWY_DYNAMIC_DISPATCH(scale)(t, begin, end, x, factor, y);
}

void add_f32(int64_t begin, int64_t end, const float* x, float* y) { HWY_DYNAMIC_DISPATCH(add_f32)(begin, end, x, y); }

void column_sums(DType t, Rows rows, int64_t width, const void* x, float* sums) {
  HWY_DYNAMIC_DISPATCH(column_sums)(t, rows, width, x, sums);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
