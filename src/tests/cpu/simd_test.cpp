// exp, log and the conversions of simd-inl.h, compiled and run for every instruction set.
#include "tests/cpu/kernel_testing.h"

#define HWY_TARGET_INCLUDE "tests/cpu/simd_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void test_exp(const float* x, float* y, int64_t n) {
  const DF d;
  for_each(d, n, [&](int64_t i, size_t lanes) HWY_ATTR { store(d, exp(d, load(d, x + i, lanes)), y + i, lanes); });
}

void test_log(const float* x, float* y, int64_t n) {
  const DF d;
  for_each(d, n, [&](int64_t i, size_t lanes) HWY_ATTR { store(d, log(d, load(d, x + i, lanes)), y + i, lanes); });
}

float test_max(const float* x, int64_t n) { return max(DF(), x, n); }

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(test_exp);
HWY_EXPORT(test_log);
HWY_EXPORT(test_max);

namespace {

using namespace nmt::testing;

std::vector<float> sweep(float low, float high, size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = low + (high - low) * (static_cast<float>(i) / static_cast<float>(n - 1));
  return x;
}

TEST_CASE("exp is accurate over its whole range") {
  const Target target(GENERATE(from_range(targets())));
  const auto low = GENERATE(-87.336f, -1.0f, -1e-4f);
  const auto x = sweep(low, low == -87.336f ? 88.722f : -low, 1000003);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(test_exp)(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::fabs(y[i] - e) / e);
  }
  CHECK(worst < 2e-7);
}

TEST_CASE("exp of special values") {
  const Target target(GENERATE(from_range(targets())));
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0,
                                -0.0f,
                                -inf,
                                inf,
                                -1e4f,
                                1e4f,
                                -87.4f,
                                88.73f,
                                std::nanf(""),
                                -3e38f,
                                3e38f,
                                std::bit_cast<float>(0x7fffffffu),
                                std::bit_cast<float>(0x7fc00001u)};
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(test_exp)(x.data(), y.data(), static_cast<int64_t>(x.size()));
  CHECK(y[0] == 1);
  CHECK(y[1] == 1);
  CHECK(y[2] == 0);
  CHECK(y[3] == inf);
  CHECK(y[4] == 0);
  CHECK(y[5] == inf);
  CHECK(y[6] == 0);
  CHECK(y[7] == inf);
  for (const size_t nan : {8, 11, 12}) CHECK(std::isnan(y[nan]));  // whatever is in it
  CHECK(y[9] == 0);
  CHECK(y[10] == inf);
}

TEST_CASE("log is accurate") {
  const Target target(GENERATE(from_range(targets())));
  const auto high = GENERATE(2.0f, 1e5f, 3e38f);
  const auto x = sweep(1e-3f, high, 100003);
  std::vector<float> y(x.size());
  HWY_DYNAMIC_DISPATCH(test_log)(x.data(), y.data(), static_cast<int64_t>(x.size()));
  std::vector<double> results(y.begin(), y.end()), reference;
  for (const float v : x) reference.push_back(std::log(static_cast<double>(v)));
  CHECK(worst_error(DType::kF32, results, reference, 5e-7, 1e-7) <= 1);
}

TEST_CASE("the maximum finds every position and ignores what lies beyond the end") {
  const Target target(GENERATE(from_range(targets())));
  for (int64_t n = 1; n <= 200; ++n) {
    std::vector<float> x(static_cast<size_t>(n), -5.0f);
    for (int64_t i = 0; i < n; ++i) {
      x[static_cast<size_t>(i)] = -2;
      REQUIRE(HWY_DYNAMIC_DISPATCH(test_max)(x.data(), n) == -2);
      x[static_cast<size_t>(i)] = -5;
    }
  }
  CHECK(HWY_DYNAMIC_DISPATCH(test_max)(nullptr, 0) == -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace nmt::cpu
#endif  // HWY_ONCE
