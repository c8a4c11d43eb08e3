#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

std::vector<double> reference_log_softmax(const Array& x, int64_t width) {
  auto y = x.values();
  for (size_t r = 0; r < y.size(); r += static_cast<size_t>(width)) {
    double* row = &y[r];
    const double largest = *std::max_element(row, row + width);
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += std::exp(row[i] - largest);
    for (int64_t i = 0; i < width; ++i) row[i] = row[i] - largest - std::log(sum);
  }
  return y;
}

std::vector<double> exp_of(std::vector<double> x) {
  for (double& v : x) v = std::exp(v);
  return x;
}

// Rows of logits: ordinary, spread wide, with a large offset, partly -inf.
Array logits(DType t, int64_t width) {
  const auto n = static_cast<size_t>(width);
  std::vector<double> all;
  for (const auto& row :
       {random_values(n, 1), random_values(n, 2, 30), random_values(n, 3, 3, 1e4), random_values(n, 4)}) {
    all.insert(all.end(), row.begin(), row.end());
  }
  for (size_t i = 3 * n + 1; i < all.size(); i += 2) all[i] = -kInf;
  return {t, all};
}

TEST_CASE("softmax and log-softmax agree with float64") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(from_range(std::begin(kWidths), std::end(kWidths)));
  const Array x = logits(t, width);
  const auto reference = reference_log_softmax(x, width);

  Array y(t, x.size()), in_place = x;
  cpu::softmax(t, {0, 4}, width, x.data(), y.data());
  // The logits differ by up to 128, and a difference is rounded to 2^-18.
  CHECK(worst_error(t, y, exp_of(reference), 5e-6, 1e-37) <= 1);
  for (int64_t r = 4; r-- > 0;) cpu::softmax(t, {r, r + 1}, width, in_place.data(), in_place.data());
  CHECK(in_place == y);

  in_place = x;
  cpu::log_softmax(t, {0, 4}, width, x.data(), y.data());
  CHECK(worst_error(t, y, reference, 1e-6, 1e-6) <= 1);
  for (int64_t r = 4; r-- > 0;) cpu::log_softmax(t, {r, r + 1}, width, in_place.data(), in_place.data());
  CHECK(in_place == y);
}

TEST_CASE("softmax of rows that are all -inf is zero, log-softmax -inf; NaN spreads; no rows is nothing") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 33, 513);
  const Array x(t, std::vector<double>(static_cast<size_t>(width), -kInf));
  Array y(t, x.size());
  cpu::softmax(t, {0, 1}, width, x.data(), y.data());
  CHECK(y.values() == std::vector<double>(x.size(), 0));
  cpu::log_softmax(t, {0, 1}, width, x.data(), y.data());
  CHECK(y.values() == std::vector<double>(x.size(), -kInf));

  Array nan(t, random_values(x.size(), 1));
  nan.set(x.size() / 2, kNaN);
  cpu::softmax(t, {0, 1}, width, nan.data(), y.data());
  for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]));

  const Array before = y;
  cpu::softmax(t, {1, 1}, width, x.data(), y.data());
  cpu::log_softmax(t, {1, 1}, width, x.data(), y.data());
  CHECK(y == before);
}

TEST_CASE("gradients of softmax and log-softmax agree with float64") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(from_range(std::begin(kWidths), std::end(kWidths)));
  const auto n = static_cast<size_t>(width);
  const Array x(t, random_values(3 * n, 5, 2)), dy(t, random_values(3 * n, 6));
  Array y(t, x.size()), logy(t, x.size());
  cpu::softmax(t, {0, 3}, width, x.data(), y.data());
  cpu::log_softmax(t, {0, 3}, width, x.data(), logy.data());

  std::vector<double> dx(x.size()), dlog(x.size());
  for (size_t r = 0; r < x.size(); r += n) {
    double dot = 0, sum = 0;
    for (size_t i = r; i < r + n; ++i) {
      dot += y[i] * dy[i];
      sum += dy[i];
    }
    for (size_t i = r; i < r + n; ++i) {
      dx[i] = y[i] * (dy[i] - dot);
      dlog[i] = dy[i] - std::exp(logy[i]) * sum;
    }
  }
  Array result(t, x.size()), in_place = dy;
  cpu::softmax_backward(t, {0, 3}, width, y.data(), dy.data(), result.data());
  CHECK(worst_error(t, result, dx, 1e-6, 2e-6) <= 1);
  for (int64_t r = 3; r-- > 0;) cpu::softmax_backward(t, {r, r + 1}, width, y.data(), in_place.data(), in_place.data());
  CHECK(in_place == result);

  in_place = dy;
  cpu::log_softmax_backward(t, {0, 3}, width, logy.data(), dy.data(), result.data());
  CHECK(worst_error(t, result, dlog, 1e-6, 1e-5) <= 1);
  for (int64_t r = 3; r-- > 0;) {
    cpu::log_softmax_backward(t, {r, r + 1}, width, logy.data(), in_place.data(), in_place.data());
  }
  CHECK(in_place == result);
}

}  // namespace
