#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

TEST_CASE("Adam agrees with float64 over several steps, and in pieces gives the same bits") {
  const Target target(GENERATE(from_range(targets())));
  const size_t n = GENERATE(0, 1, 7, 33, 65, 511, 512, 513, 3001);
  const bool averaged = GENERATE(true, false);
  const float grad_scale = 0.25f;
  Array m(DType::kF32, std::vector<double>(n, 0)), v = m, p(DType::kF32, random_values(n, 1)), average = p;
  auto mr = m.values(), vr = v.values(), pr = p.values(), ar = pr;
  for (int step = 1; step <= 4; ++step) {
    const Adam a{.rate = 0.01f,
                 .beta1 = 0.9f,
                 .beta2 = 0.98f,
                 .eps = 1e-9f,
                 .correction1 = static_cast<float>(1 - std::pow(0.9, step)),
                 .correction2 = static_cast<float>(1 - std::pow(0.98, step)),
                 .grad_scale = grad_scale,
                 .smoothing = 0.05f};
    Array g(DType::kF32, random_values(n, static_cast<uint64_t>(10 + step), 0.01));
    if (n > 2) g.set(2, 0);
    for (size_t i = 0; i < n; ++i) {
      const double gradient = g[i] * grad_scale;
      mr[i] = static_cast<double>(a.beta1) * mr[i] + (1 - static_cast<double>(a.beta1)) * gradient;
      vr[i] = static_cast<double>(a.beta2) * vr[i] + (1 - static_cast<double>(a.beta2)) * gradient * gradient;
      pr[i] -= a.rate * (mr[i] / a.correction1) / (std::sqrt(vr[i] / a.correction2) + a.eps);
      ar[i] += a.smoothing * (pr[i] - ar[i]);
    }
    Array g2 = g, m2 = m, v2 = v, p2 = p, average2 = average;
    cpu::adam(a, 0, static_cast<int64_t>(n), g.f32(), m.f32(), v.f32(), p.f32(), averaged ? average.f32() : nullptr);
    in_pieces(static_cast<int64_t>(n), [&](int64_t begin, int64_t end) {
      cpu::adam(a, begin, end, g2.f32(), m2.f32(), v2.f32(), p2.f32(), averaged ? average2.f32() : nullptr);
    });
    CHECK(g.values() == std::vector<double>(n, 0));
    CHECK(g2 == g);
    CHECK(m2 == m);
    CHECK(v2 == v);
    CHECK(p2 == p);
    CHECK(average2 == average);
  }
  CHECK(worst_error(DType::kF32, m, mr, 2e-6, 1e-9) <= 1);
  CHECK(worst_error(DType::kF32, v, vr, 5e-6) <= 1);
  CHECK(worst_error(DType::kF32, p, pr, 1e-6, 1e-6) <= 1);
  if (averaged) CHECK(worst_error(DType::kF32, average, ar, 1e-6, 1e-6) <= 1);
}

TEST_CASE("the sum of squares is accumulated in float64") {
  const Target target(GENERATE(from_range(targets())));
  const size_t n = GENERATE(0, 1, 7, 33, 65, 511, 512, 513, 100003);
  Array x(DType::kF32, random_values(n, 1, 1e-3));
  if (n > 4) x.set(4, 3e19);  // its square alone would overflow float32
  long double expected = 0;
  for (size_t i = 0; i < n; ++i) expected += static_cast<long double>(x[i]) * x[i];
  CHECK(cpu::sum_of_squares(x.f32(), static_cast<int64_t>(n)) == Approx(static_cast<double>(expected)).epsilon(1e-13));
}

}  // namespace
