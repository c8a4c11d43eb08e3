#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// p -= rate * (m / correction1) / (sqrt(v / correction2) + eps), with the corrections moved out of the loop.
void adam(const Adam& a, int64_t begin, int64_t end, float* g, float* m, float* v, float* p, float* average) {
  const DF d;
  const auto beta1 = hn::Set(d, a.beta1), rest1 = hn::Set(d, 1 - a.beta1);
  const auto beta2 = hn::Set(d, a.beta2), rest2 = hn::Set(d, 1 - a.beta2);
  const auto grad_scale = hn::Set(d, a.grad_scale), eps = hn::Set(d, a.eps);
  const auto rate = hn::Set(d, a.rate / a.correction1);
  const auto root_factor = hn::Set(d, 1 / std::sqrt(a.correction2));
  const auto smoothing = hn::Set(d, a.smoothing);
  const auto update = [&](int64_t i, size_t n) HWY_ATTR {
    const auto gradient = hn::Mul(load(d, g + i, n), grad_scale);
    const auto m1 = hn::MulAdd(load(d, m + i, n), beta1, hn::Mul(gradient, rest1));
    const auto v1 = hn::MulAdd(load(d, v + i, n), beta2, hn::Mul(hn::Mul(gradient, gradient), rest2));
    const auto step = hn::Div(hn::Mul(m1, rate), hn::MulAdd(hn::Sqrt(v1), root_factor, eps));
    const auto p1 = hn::Sub(load(d, p + i, n), step);
    store(d, m1, m + i, n);
    store(d, v1, v + i, n);
    store(d, p1, p + i, n);
    store(d, hn::Zero(d), g + i, n);
    return p1;
  };
  if (average == nullptr) {
    for_each(d, end - begin, [&](int64_t i, size_t n) HWY_ATTR { update(begin + i, n); });
  } else {
    for_each(d, end - begin, [&](int64_t i, size_t n) HWY_ATTR {
      const auto p1 = update(begin + i, n);
      const auto old = load(d, average + begin + i, n);
      store(d, hn::MulAdd(hn::Sub(p1, old), smoothing, old), average + begin + i, n);
    });
  }
}

double sum_of_squares(const float* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const auto total = fold(
      half, n, hn::Zero(d),
      [&](int64_t i, size_t lanes) HWY_ATTR {
        const auto v = hn::PromoteTo(d, load(half, x + i, lanes));
        return hn::Mul(v, v);
      },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(d, total));
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(adam);
HWY_EXPORT(sum_of_squares);

void adam(const Adam& a, int64_t begin, int64_t end, float* g, float* m, float* v, float* p, float* average) {
  HWY_DYNAMIC_DISPATCH(adam)(a, begin, end, g, m, v, p, average);
}

double sum_of_squares(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_of_squares)(x, n); }

}  // namespace nmt::cpu
#endif  // HWY_ONCE
