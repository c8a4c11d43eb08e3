#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("cuda: sums of columns agree with float64") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16), t_sums = GENERATE(DType::kF32, DType::kBF16);
  const int64_t rows = GENERATE(0, 1, 33, 1000), width = GENERATE(1, 7, 33, 512);
  const bool accumulate = GENERATE(false, true);
  const auto n = static_cast<size_t>(width);
  const Array x(t, random_values(static_cast<size_t>(rows) * n, 1)), before(t_sums, random_values(n, 2));
  auto expected = accumulate ? before.values() : std::vector<double>(n);
  for (size_t i = 0; i < x.size(); ++i) expected[i % n] += x[i];
  const Array sums = in_any_order(*device, [&](OnDevice& on) {
    Array sums = before;
    void* const at = on(sums);
    void* const room = on.room(4 * cuda::column_sums_room(rows, width));
    cuda::column_sums(on.stream(), t, rows, width, on(x), static_cast<float*>(room), t_sums, at, accumulate);
    on.read(at, sums);
    return sums;
  });
  CHECK(worst_error(t_sums, sums, expected, 1e-6, 2e-5) <= 1);
}

TEST_CASE("cuda: sums of columns from where no vector begins are those of aligned rows") {
  const auto device = test_device();
  if (device == nullptr) return;
  const Array x(DType::kF32, random_values(300 * 40, 1));
  std::vector<float> sums(40), shifted(40);
  OnDevice on(*device);
  for (const bool shift : {false, true}) {
    float* const at = on(sums);
    void* const room = on.room(4 * cuda::column_sums_room(300, 40));
    cuda::column_sums(on.stream(), DType::kF32, 300, 40, on(x, shift ? 4 : 0), static_cast<float*>(room), DType::kF32,
                      at, false);
    on.read(at, shift ? shifted : sums);
  }
  CHECK(sums == shifted);
}

TEST_CASE("cuda: sums of squares and weighted sums are accumulated in float64") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t n = GENERATE(0, 1, 7, 33, 65, 512, 1000, 100003);
  const size_t shift = GENERATE(0, 4);
  Array x(DType::kF32, random_values(n, 1, 1e-3));
  if (n > 4) x.set(4, 3e19);  // its square alone would overflow float32
  long double squares = 0, sum = 0;
  for (size_t i = 0; i < n; ++i) {
    squares += static_cast<long double>(x[i]) * x[i];
    sum += x[i];
  }
  const auto count = static_cast<int64_t>(n);
  const auto [found_squares, found_sum] = in_any_order(*device, [&](OnDevice& on) {
    std::vector<double> squares(1);
    std::vector<float> sum(1);
    double* const at_squares = on(squares);
    float* const at_sum = on(sum);
    const auto* at = static_cast<const float*>(on(x, shift));
    auto* room = static_cast<double*>(on.room(8 * cuda::sum_of_squares_room(count)));
    cuda::sum_of_squares(on.stream(), count, at, room, at_squares);
    cuda::weighted_sum(on.stream(), count, at, on(std::vector<float>{0.125f}), at_sum);
    on.read(at_squares, squares);
    on.read(at_sum, sum);
    return std::pair(squares[0], sum[0]);
  });
  CHECK(found_squares == Approx(static_cast<double>(squares)).epsilon(1e-13));
  CHECK(found_sum == Approx(static_cast<double>(sum) / 8).epsilon(1e-7).margin(1e-30));
}
