#include "backend/cuda/gemm.h"

#include <cmath>

#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

// Every way that a product can be asked for, against float64.
TEST_CASE("cuda: products agree with float64") {
  const auto device = test_device();
  if (device == nullptr) return;
  cuda::Products products(*device);
  products.tf32 = GENERATE(false, true);
  struct Size {
    int64_t count, m, n, k;
    size_t shift;  // bytes by which y and the bias lie behind what is aligned
  };
  const auto [count, m, n, k, shift] = GENERATE(values<Size>({{1, 1, 1, 1, 0},
                                                              {1, 7, 8, 9, 4},
                                                              {1, 33, 65, 16, 0},
                                                              {3, 16, 24, 40, 8},
                                                              {1, 130, 64, 64, 0},
                                                              {1, 128, 64, 64, 4},
                                                              {2, 7, 8, 0, 0}}));
  const auto [t, ty] = GENERATE(values<std::pair<DType, DType>>({{DType::kF32, DType::kF32},
                                                                 {DType::kBF16, DType::kBF16},
                                                                 {DType::kBF16, DType::kF32},
                                                                 {DType::kF16, DType::kF16},
                                                                 {DType::kF16, DType::kF32}}));
  const bool transpose_a = GENERATE(false, true), transpose_b = GENERATE(false, true), plain = GENERATE(false, true);
  const bool accumulate = plain && ty == DType::kF32, biased = !plain && count == 1;
  INFO(count << " x [" << m << ", " << n << ", " << k << "], " << name_of(t) << " into " << name_of(ty)
             << ", transposed " << transpose_a << transpose_b << ", biased " << biased << ", TF32 " << products.tf32);
  const auto elements = [](int64_t a, int64_t b, int64_t c) { return static_cast<size_t>(a * b * c); };
  const Array a(t, random_values(elements(count, m, k), 1)), b(t, random_values(elements(count, k, n), 2));
  const Array bias(ty, random_values(static_cast<size_t>(n), 3));
  Array y(ty, random_values(elements(count, m, n), 4));
  std::vector<double> expected = y.values();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c) {
        double sum = biased ? bias[static_cast<size_t>(c)] : 0;
        for (int64_t j = 0; j < k; ++j)
          sum += a[static_cast<size_t>(i * m * k + (transpose_a ? j * m + r : r * k + j))] *
                 b[static_cast<size_t>(i * k * n + (transpose_b ? c * k + j : j * n + c))];
        double& to = expected[static_cast<size_t>((i * m + r) * n + c)];
        to = accumulate ? to + sum : biased ? std::fmax(sum, 0) : sum;
      }
  OnDevice on(*device);
  void* at_y = on(y, shift);
  for (int again = 0; again < (accumulate ? 1 : 2); ++again)
    products.multiply({.transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .m = m,
                       .n = n,
                       .k = k,
                       .t = t,
                       .ty = ty,
                       .accumulate = accumulate,
                       .bias = biased ? on(bias, shift) : nullptr,
                       .activation = biased ? Activation::kRelu : Activation::kNone,
                       .count = count},
                      on(a), on(b), at_y);
  on.read(at_y, y);
  const bool rounds = products.tf32 && t == DType::kF32;
  CHECK(worst_error(ty, y, expected, 1e-5, rounds ? 2e-2 : 1e-4) <= 1);
  const bool large = std::min({m, n, k}) >= 64 && (m | n | k) % 8 == 0;      // else the library may well use float32
  if (rounds && large) CHECK(worst_error(ty, y, expected, 1e-6, 1e-6) > 1);  // it is not float32 in disguise
}

TEST_CASE("cuda: what is no number stays none, also through a ReLU") {
  const auto device = test_device();
  if (device == nullptr) return;
  cuda::Products products(*device);
  const DType t = GENERATE(DType::kF32, DType::kBF16, DType::kF16);
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>({{128, 64, 64}, {7, 9, 5}}));
  const bool biased = GENERATE(false, true);
  INFO("[" << m << ", " << n << ", " << k << "], " << name_of(t) << ", biased " << biased);
  Array a(t, random_values(static_cast<size_t>(m * k), 1));
  a.set(static_cast<size_t>(k), NAN);  // of row 1
  const Array b(t, random_values(static_cast<size_t>(k * n), 2)), bias(t, random_values(static_cast<size_t>(n), 3));
  Array y(t, std::vector<double>(static_cast<size_t>(m * n)));
  OnDevice on(*device);
  void* at_y = on(y);
  products.multiply(
      {.m = m, .n = n, .k = k, .t = t, .ty = t, .bias = biased ? on(bias) : nullptr, .activation = Activation::kRelu},
      on(a), on(b), at_y);
  on.read(at_y, y);
  for (int64_t c = 0; c < n; ++c) {
    CHECK(std::isnan(y[static_cast<size_t>(n + c)]));
    CHECK(y[static_cast<size_t>(c)] >= 0);
  }
}
