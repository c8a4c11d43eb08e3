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

  // As one part, and as several by two searches, one of which may have fewer than k.
  const auto width = static_cast<int64_t>(x.size());
  for (const auto& begins : {std::vector<int64_t>{0, width}, {0, width / 3, width - width / 5, width}}) {
    const size_t searches = begins.size() == 2 ? 1 : 2, stride = static_cast<size_t>(k) + 3;
    std::vector<float> found(searches * stride), best(static_cast<size_t>(k));
    std::vector<int32_t> found_indices(searches * stride), indices(static_cast<size_t>(k), -1);
    std::vector<cpu::BestLogits> parts(searches);
    for (size_t p = 0; p + 1 < begins.size(); ++p) {
      const size_t search = p / 2;
      cpu::find_best(logits.f32() + begins[p], begins[p + 1] - begins[p], static_cast<int32_t>(begins[p]), k,
                     parts[search], found.data() + search * stride, found_indices.data() + search * stride);
    }
    cpu::merge_best(static_cast<int>(searches), parts.data(), k, static_cast<int64_t>(stride), found.data(),
                    found_indices.data(), best.data(), indices.data());
    CHECK(indices == order);
    const std::vector<double> got(best.begin(), best.end());
    CHECK(worst_error(DType::kF32, got, expected, 1e-6, 1e-6) <= 1);
  }
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

TEST_CASE("what is not a number shows in every probability of its row") {
  const Target target(GENERATE(from_range(targets())));
  auto x = random_values(300, 4);
  const double no_number = GENERATE(kNaN, kInf);
  x[GENERATE(0, 100, 299)] = no_number;
  const Array logits(DType::kF32, x);
  float values[3], best[3];
  int32_t indices[3], best_indices[3];
  cpu::BestLogits found;
  cpu::find_best(logits.f32(), 300, 0, 3, found, values, indices);
  cpu::merge_best(1, &found, 3, 3, values, indices, best, best_indices);
  for (const float v : best) CHECK(std::isnan(v));

  // Nothing is found in a row, or in a part of it, of which no logit is a number.
  const Array none(DType::kF32, std::vector<double>(300, kNaN)), some(DType::kF32, random_values(300, 5));
  for (const int parts : {1, 2}) {
    cpu::BestLogits both[2];
    float part_values[6] = {1, 2, 3, 4, 5, 6};
    int32_t part_indices[6] = {90, 91, 92, 93, 94, 95};
    cpu::find_best(none.f32(), 300, 0, 3, both[0], part_values, part_indices);
    if (parts == 2) cpu::find_best(some.f32(), 300, 300, 3, both[1], part_values + 3, part_indices + 3);
    cpu::merge_best(parts, both, 3, 3, part_values, part_indices, best, best_indices);
    for (const float v : best) CHECK(std::isnan(v));
    for (const int32_t i : best_indices) CHECK(i == 0);
  }
  CHECK_THROWS_AS(cpu::find_best(logits.f32(), 2, 0, 0, found, values, indices), std::logic_error);
}

TEST_CASE("where fewer than k are there, the rest is impossible") {
  const Target target(GENERATE(from_range(targets())));
  const Array logits(DType::kF32, {1, 1});
  float values[3], best[3];
  int32_t indices[3], best_indices[3];
  cpu::BestLogits found;
  cpu::find_best(logits.f32(), 2, 5, 3, found, values, indices);
  cpu::merge_best(1, &found, 3, 3, values, indices, best, best_indices);
  CHECK(std::vector(best_indices, best_indices + 3) == std::vector<int32_t>{5, 6, 0});
  CHECK(best[0] == Approx(std::log(0.5)));
  CHECK(best[1] == best[0]);
  CHECK(best[2] == -kInf);
}

TEST_CASE("where all logits are -inf, nothing is possible") {
  const Target target(GENERATE(from_range(targets())));
  const size_t width = GENERATE(3, 65, 300);
  const Array logits(DType::kF32, std::vector<double>(width, -kInf));
  float values[3], best[3];
  int32_t indices[3], best_indices[3];
  cpu::BestLogits found;
  cpu::find_best(logits.f32(), static_cast<int64_t>(width), 0, 3, found, values, indices);
  cpu::merge_best(1, &found, 3, 3, values, indices, best, best_indices);
  for (const float v : best) CHECK(v == -kInf);
}

}  // namespace
