#include <numeric>

#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

std::vector<uint8_t> bytes(int64_t n) {
  Random random(static_cast<uint64_t>(n));
  std::vector<uint8_t> x(static_cast<size_t>(n));
  for (auto& byte : x) byte = static_cast<uint8_t>(random.next());
  return x;
}

std::vector<int32_t> permutation(int64_t n) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Random(5).shuffle(order);
  return order;
}

void copy(const std::vector<uint8_t>& x, int64_t from, std::vector<uint8_t>& y, int64_t to, int64_t bytes) {
  std::copy_n(x.begin() + from, bytes, y.begin() + to);
}

}  // namespace

TEST_CASE("cuda: columns are copied, and what is around them stays") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int size = GENERATE(1, 2, 4);
  const int64_t rows = GENERATE(0, 1, 300);
  struct Columns {
    int64_t count, x_width, from, y_width, to;
  };
  const auto c = GENERATE(Columns{64, 192, 64, 64, 0}, Columns{7, 9, 2, 11, 3}, Columns{1, 1, 0, 1, 0},
                          Columns{1000, 1000, 0, 1001, 1}, Columns{0, 4, 0, 4, 0}, Columns{24, 40, 8, 32, 0});
  const auto x = bytes(rows * c.x_width * size);
  auto y = std::vector<uint8_t>(static_cast<size_t>(rows * c.y_width * size), 7), expected = y;
  for (int64_t r = 0; r < rows; ++r)
    copy(x, (r * c.x_width + c.from) * size, expected, (r * c.y_width + c.to) * size, c.count * size);
  OnDevice on(*device);
  uint8_t* const at = on(y);
  cuda::copy_columns(on.stream(), size, rows, c.count, on(x), c.x_width, c.from, at, c.y_width, c.to);
  on.read(at, y);
  CHECK(y == expected);
}

TEST_CASE("cuda: heads are split and merged") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int size = GENERATE(2, 4);
  const int64_t rows = GENERATE(0, 1, 33), heads = GENERATE(1, 8), d = GENERATE(1, 7, 64);
  const auto x = bytes(rows * heads * d * size);
  auto expected = x, y = x;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      copy(x, (r * heads + h) * d * size, expected, (h * rows + r) * d * size, d * size);
  OnDevice on(*device);
  uint8_t *const at_x = on(x), *const at_y = on(y);
  cuda::swap_heads(on.stream(), size, rows, heads, d, at_x, at_y);
  on.read(at_y, y);
  CHECK(y == expected);
  cuda::swap_heads(on.stream(), size, heads, rows, d, at_y, at_x);
  on.read(at_x, y);
  CHECK(y == x);
}

TEST_CASE("cuda: rows are scattered") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int64_t rows = GENERATE(0, 1, 500), width = GENERATE(1, 6, 20, 128), stride = width + GENERATE(0, 32);
  const auto x = bytes(rows * stride);
  auto to = permutation(rows);
  auto y = std::vector<uint8_t>(static_cast<size_t>(rows * width), 7), expected = y;
  for (size_t r = 0; r < to.size(); r += 3) to[r] = -1;
  for (int64_t r = 0; r < rows; ++r)
    if (const int64_t target = to[static_cast<size_t>(r)]; target >= 0)
      copy(x, r * stride, expected, target * width, width);
  OnDevice on(*device);
  uint8_t* const at = on(y);
  cuda::scatter_rows(on.stream(), rows, width, on(x), stride, on(to), at);
  on.read(at, y);
  CHECK(y == expected);
}
