#include <functional>
#include <numeric>

#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

double phi(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A kernel of one or two inputs, and what it computes; `absolute` is the error allowed beyond a relative 1e-6.
struct Case {
  const char* name;
  std::function<void(DType, int64_t, int64_t, const void*, const void*, void*)> kernel;
  std::function<double(double, double)> reference;
  double absolute = 0;
};

std::vector<Case> cases() {
  const auto unary = [](auto f) {
    return [f](DType t, int64_t b, int64_t e, const void* x, const void*, void* y) { f(t, b, e, x, y); };
  };
  return {
      {"relu", unary(cpu::relu), [](double x, double) { return x > 0 ? x : 0; }},
      {"relu_backward", cpu::relu_backward, [](double y, double dy) { return y > 0 ? dy : 0; }},
      {"gelu", unary(cpu::gelu), [](double x, double) { return x * distribution(x); }, 1e-37},
      {"gelu_backward", cpu::gelu_backward, [](double x, double dy) { return dy * (distribution(x) + x * phi(x)); },
       1e-6},
      {"silu", unary(cpu::silu), [](double x, double) { return x * sigmoid(x); }, 1e-35},
      {"silu_backward", cpu::silu_backward,
       [](double x, double dy) { return dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))); }, 2e-6},
      {"add", cpu::add, [](double a, double b) { return a + b; }},
      {"multiply", cpu::multiply, [](double a, double b) { return a * b; }},
      {"scale",
       [](DType t, int64_t b, int64_t e, const void* x, const void*, void* y) { cpu::scale(t, b, e, x, 0.3f, y); },
       [](double x, double) { return static_cast<double>(0.3f) * x; }},
  };
}

TEST_CASE("elementwise kernels agree with float64; in place and in pieces they give the same bits") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const double spread = GENERATE(1.0, 12.0);
  const size_t n = GENERATE(0, 1, 7, 33, 65, 511, 512, 513, 20000);
  const Array a(t, random_values(n, 1, spread)), b(t, random_values(n, 2));
  for (const Case& c : cases()) {
    INFO(c.name << ", " << n << " elements");
    std::vector<double> reference(n);
    for (size_t i = 0; i < n; ++i) reference[i] = c.reference(a[i], b[i]);
    Array y(t, n);
    c.kernel(t, 0, static_cast<int64_t>(n), a.data(), b.data(), y.data());
    // The relative error of exp(-x^2 / 2) grows with x^2: one rounding of the exponent.
    CHECK(worst_error(t, y, reference, spread > 1 ? 5e-6 : 1e-6, c.absolute) <= 1);

    Array left = a, right = b;
    in_pieces(static_cast<int64_t>(n), [&](int64_t begin, int64_t end) {
      c.kernel(t, begin, end, left.data(), b.data(), left.data());
      c.kernel(t, begin, end, a.data(), right.data(), right.data());
    });
    CHECK(left == y);
    CHECK(right == y);
  }
}

TEST_CASE("elementwise kernels give the same bits with every instruction set") {
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const size_t n = 4099;
  const Array a(t, random_values(n, 1, 4)), b(t, random_values(n, 2));
  for (const Case& c : cases()) {
    INFO(c.name);
    Array first(t, n);
    c.kernel(t, 0, n, a.data(), b.data(), first.data());
    for (const int64_t each : targets()) {
      const Target target(each);
      Array y(t, n);
      c.kernel(t, 0, n, a.data(), b.data(), y.data());
      CHECK(y == first);
    }
  }
}

TEST_CASE("results in bf16 are rounded to nearest even; subnormal ones may be zero; NaN stays NaN") {
  const Target target(GENERATE(from_range(targets())));
  const float step = GENERATE(0x1p-9f, 0x3p-9f, 0x1p-8f, 0x1.01p-9f);  // with ties, and without
  std::vector<uint16_t> x(65536), y(x.size());
  std::iota(x.begin(), x.end(), uint16_t{0});
  cpu::scale(DType::kBF16, 0, 65536, x.data(), 1 + step, y.data());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float exact = from_bf16(x[i]) * (1 + step);
    const bool zero = std::fabs(exact) < std::numeric_limits<float>::min() && from_bf16(y[i]) == 0;
    wrong += std::isnan(exact) ? !std::isnan(from_bf16(y[i])) : !zero && y[i] != to_bf16(exact);
  }
  CHECK(wrong == 0);
}

TEST_CASE("activations of extreme values") {
  const Target target(GENERATE(from_range(targets())));
  const Array x(DType::kF32, {0, -0.0, 100, -100, 1e30, -1e30, 3e38, -3e38, kNaN});
  const int64_t n = 9;
  const Array ones(DType::kF32, std::vector<double>(9, 1));
  Array y(DType::kF32, 9);
  const std::vector<double> rectified = {0, 0, 100, 0, static_cast<float>(1e30), 0, static_cast<float>(3e38), 0, kNaN};
  cpu::relu(DType::kF32, 0, n, x.data(), y.data());
  CHECK(worst_error(DType::kF32, y, rectified, 0) == 0);
  Array dx(DType::kF32, 8);
  cpu::relu_backward(DType::kF32, 0, 8, y.data(), ones.data(), dx.data());
  CHECK(worst_error(DType::kF32, dx, {0, 0, 1, 0, 1, 0, 1, 0}, 0) == 0);
  cpu::gelu(DType::kF32, 0, n, x.data(), y.data());
  CHECK(worst_error(DType::kF32, y, rectified, 0) == 0);
  cpu::silu(DType::kF32, 0, n, x.data(), y.data());
  CHECK(worst_error(DType::kF32, y, rectified, 0, 1e-35) <= 1);
  cpu::gelu_backward(DType::kF32, 0, n, x.data(), ones.data(), y.data());
  CHECK(worst_error(DType::kF32, y, {0.5, 0.5, 1, 0, 1, 0, 1, 0, kNaN}, 2e-7) <= 1);
  cpu::silu_backward(DType::kF32, 0, n, x.data(), ones.data(), y.data());
  CHECK(worst_error(DType::kF32, y, {0.5, 0.5, 1, 0, 1, 0, 1, 0, kNaN}, 1e-7, 1e-35) <= 1);
}

TEST_CASE("column sums add rows in order; add_f32 adds") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(from_range(std::begin(kWidths), std::end(kWidths)));
  const int64_t rows = GENERATE(0, 1, 3, 4, 29);
  const auto n = static_cast<size_t>(width);
  const Array x(t, random_values(static_cast<size_t>(rows) * n, 1));
  std::vector<float> expected(n, 0.25f);
  for (size_t i = 0; i < x.size(); ++i) expected[i % n] += static_cast<float>(x[i]);

  std::vector<float> sums(n, 0.25f), pieces(n, 0.25f);
  cpu::column_sums(t, {0, rows}, width, x.data(), sums.data());
  CHECK(sums == expected);
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cpu::column_sums(t, {begin, end}, width, x.data(), pieces.data());
  });
  CHECK(pieces == expected);

  cpu::add_f32(1, width, expected.data(), sums.data());
  CHECK(sums[0] == expected[0]);
  for (size_t i = 1; i < n; ++i) CHECK(sums[i] == 2 * expected[i]);
}

}  // namespace
