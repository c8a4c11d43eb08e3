#include <numeric>

#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

void check_top_k(const std::vector<double>& values, int k) {
  const Array logits(DType::kF32, values);
  const auto x = logits.values();
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
  order.resize(static_cast<size_t>(k));
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - largest);
  std::vector<double> expected;
  for (const int32_t i : order) expected.push_back(x[static_cast<size_t>(i)] - largest - std::log(sum));

  Array best(DType::kF32, static_cast<size_t>(k));
  std::vector<int32_t> indices(static_cast<size_t>(k), -1);
  float logsum = 0;
  cpu::top_k_log_softmax(logits.f32(), static_cast<int64_t>(x.size()), k, best.f32(), indices.data(), &logsum);
  CHECK(indices == order);
  CHECK(worst_error(DType::kF32, best, expected, 1e-6, 1e-6) <= 1);
  CHECK(logsum == Approx(largest + std::log(sum)).epsilon(1e-6).margin(1e-6));

  Array again(DType::kF32, static_cast<size_t>(k));
  cpu::top_k_log_softmax(logits.f32(), static_cast<int64_t>(x.size()), k, again.f32(), indices.data(), nullptr);
  CHECK(again == best);
}

TEST_CASE("the best k of random rows") {
  const Target target(GENERATE(from_range(targets())));
  const size_t width = GENERATE(1, 7, 33, 65, 511, 512, 513, 8191, 40000);
  for (const int k : {1, 2, 4, 13, 200, static_cast<int>(std::min<size_t>(width, 1000))}) {
    if (k <= static_cast<int>(width)) check_top_k(random_values(width, width, 4), k);
  }
}

TEST_CASE("the best k with many ties, in sorted rows, with -inf and signed zeros") {
  const Target target(GENERATE(from_range(targets())));
  const int k = GENERATE(1, 4, 50, 200);
  const size_t width = 3001;
  auto ties = random_values(width, 3);
  for (double& v : ties) v = std::round(v);
  check_top_k(ties, k);
  check_top_k(std::vector<double>(width, 0.25), k);

  std::vector<double> rising(width), falling(width), masked(width, -kInf), zeros(width);
  for (size_t i = 0; i < width; ++i) {
    rising[i] = static_cast<double>(i) / 100;
    falling[i] = -rising[i];
    zeros[i] = i % 3 == 0 ? -0.0 : 0.0;
  }
  check_top_k(rising, k);
  check_top_k(falling, k);
  check_top_k(zeros, k);
  for (size_t i = 5; i < width; i += 997) masked[i] = static_cast<double>(i % 7);
  check_top_k(masked, k);
}

TEST_CASE("the best k of a row with a large offset keep their differences") {
  const Target target(GENERATE(from_range(targets())));
  check_top_k(random_values(2000, 1, 5, 1e4), 10);
}

TEST_CASE("more than there is cannot be asked for, nothing can") {
  const float x[] = {1, 2};
  float values[3];
  int32_t indices[3];
  CHECK_THROWS_AS(cpu::top_k_log_softmax(x, 2, 3, values, indices, nullptr), std::logic_error);
  float logsum = 0;
  cpu::top_k_log_softmax(x, 2, 0, nullptr, nullptr, &logsum);
  CHECK(logsum == Approx(2 + std::log(1 + std::exp(-1.0))));
}

}  // namespace
