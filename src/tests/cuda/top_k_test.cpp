#include <numeric>

#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

struct Best {
  std::vector<int32_t> ids;
  Array log_probabilities;
  bool operator==(const Best&) const = default;
};

Best find(cuda::Device& device, const Array& logits, size_t rows, int k, const std::vector<uint8_t>& mask = {}) {
  return in_any_order(device, [&](OnDevice& on) {
    Best best{std::vector<int32_t>(rows * static_cast<size_t>(k)), Array(DType::kF32, rows * static_cast<size_t>(k))};
    int32_t* const at_ids = on(best.ids);
    void* const at = on(best.log_probabilities);
    cuda::top_k(on.stream(), static_cast<int64_t>(rows), static_cast<int64_t>(logits.size() / rows), k,
                static_cast<const float*>(on(logits)), mask.empty() ? nullptr : on(mask),
                static_cast<int64_t>(mask.size() / rows), static_cast<float*>(at), at_ids);
    on.read(at_ids, best.ids);
    on.read(at, best.log_probabilities);
    return best;
  });
}

bool is_set(const std::vector<uint8_t>& mask, size_t row, size_t rows, size_t i) {
  return mask.empty() || (mask[row * (mask.size() / rows) + i / 8] >> i % 8 & 1) != 0;
}

// Exactly the ids of a stable sort, and their log-probabilities in float64.
void check_top_k(cuda::Device& device, const std::vector<double>& values, size_t rows, int k,
                 const std::vector<uint8_t>& mask = {}) {
  const Array logits(DType::kF32, values);
  const size_t width = values.size() / rows;
  std::vector<int32_t> ids;
  std::vector<double> log_probabilities;
  for (size_t r = 0; r < rows; ++r) {
    const auto x = [&](int32_t i) { return logits[r * width + static_cast<size_t>(i)]; };
    std::vector<int32_t> order;
    for (size_t i = 0; i < width; ++i)
      if (is_set(mask, r, rows, i)) order.push_back(static_cast<int32_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x(a) > x(b); });
    double sum = 0;
    for (const int32_t i : order) sum += std::exp(x(i) - x(order[0]));
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
      const bool found = i < order.size();
      ids.push_back(found ? order[i] : 0);
      log_probabilities.push_back(found ? x(order[i]) - x(order[0]) - std::log(sum) : -kInf);
    }
  }
  const Best best = find(device, logits, rows, k, mask);
  CHECK(best.ids == ids);
  CHECK(worst_error(DType::kF32, best.log_probabilities, log_probabilities, 1e-6, 2e-6) <= 1);
}

}  // namespace

TEST_CASE("cuda: the best k of random rows") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t width = GENERATE(1, 7, 33, 65, 512, 1000, 8000, 65535, 65536);
  const int k = GENERATE(1, 4, 13, 64);
  check_top_k(*device, random_values(2 * width, width, 4), 2, k);
  check_top_k(*device, random_values(width, width, 5, 1e4), 1, k);
}

TEST_CASE("cuda: the best k with many ties, in sorted rows, in few threads' elements, with -inf and signed zeros") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int k = GENERATE(1, 4, 64);
  const size_t width = 3001;
  auto ties = random_values(width, 3);
  for (double& v : ties) v = std::round(v);
  check_top_k(*device, ties, 1, k);
  check_top_k(*device, std::vector<double>(width, 0.25), 1, k);

  std::vector<double> rising(width), falling(width), masked(width, -kInf), zeros(width), few(20000);
  for (size_t i = 0; i < width; ++i) {
    rising[i] = static_cast<double>(i) / 100;
    falling[i] = -rising[i];
    zeros[i] = i % 3 == 0 ? -0.0 : 0.0;
  }
  for (size_t i = 0; i < few.size(); ++i) few[i] = i / 8 % 512 < 40 ? 5 + static_cast<double>(i % 1000) / 1000 : -5;
  check_top_k(*device, rising, 1, k);
  check_top_k(*device, falling, 1, k);
  check_top_k(*device, zeros, 1, k);
  check_top_k(*device, few, 1, k);
  for (size_t i = 5; i < width; i += 997) masked[i] = static_cast<double>(i % 7);
  check_top_k(*device, masked, 1, k);
}

TEST_CASE("cuda: the best k where what may be among them does not fit into shared memory") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t width = GENERATE(50000, 65537);
  const int k = 300;
  // 299 threads have large elements only, and the 300th's largest is small: all of the former's reach it.
  const size_t vector = width % 8 == 0 ? 8 : 1;
  std::vector<double> few(width, -5), ties(width, 0.25);
  for (size_t i = 0; i < width; ++i) {
    const size_t thread = i / vector % 512;
    if (thread < 300) few[i] = thread < 299 ? 10 + static_cast<double>(i * 7919 % 1000) / 1000 : 5;
  }
  REQUIRE(std::ranges::count_if(few, [](double x) { return x >= 5; }) > 12 << 10);  // keys that there is room for
  for (size_t i = 3; i < width; i += width / 100) ties[i] = 1;
  check_top_k(*device, few, 1, k);
  check_top_k(*device, ties, 1, k);
  std::vector<uint8_t> mask((width + 63) / 64 * 8, 0x5a);
  check_top_k(*device, ties, 1, k, mask);
}

TEST_CASE("cuda: the best k of what a mask leaves of a row, and nothing where it leaves less") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t width = GENERATE(7, 65, 1000, 8000), rows = 3;
  const int k = GENERATE(1, 6, 64);
  const size_t bytes = (width + 63) / 64 * 8;
  std::vector<uint8_t> mask(rows * bytes);
  Random random(width);
  for (size_t i = 0; i < width; ++i) {
    if (random.below(3) == 0) mask[i / 8] |= static_cast<uint8_t>(1 << i % 8);
    if (random.below(50) == 0) mask[bytes + i / 8] |= static_cast<uint8_t>(1 << i % 8);
  }
  auto values = random_values(rows * width, 1, 4);
  values[width / 2] = kInf;  // not wanted
  mask[width / 16] &= static_cast<uint8_t>(~(1 << width / 2 % 8));
  check_top_k(*device, values, rows, k, mask);
}

TEST_CASE("cuda: what is not a number shows in every probability of its row") {
  const auto device = test_device();
  if (device == nullptr) return;
  auto x = random_values(300, 4);
  x[GENERATE(0, 100, 299)] = kNaN;
  const Best best = find(*device, Array(DType::kF32, x), 1, 3);
  for (const double v : best.log_probabilities.values()) CHECK(std::isnan(v));
  for (const int32_t id : best.ids) CHECK((id >= 0 && id < 300));
}
