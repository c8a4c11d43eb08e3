#include <numeric>

#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

constexpr int32_t kVocabulary = 40;

// Rows of all ids; `frequent` has half of them, some are -1 and some ids have none.
std::vector<int32_t> random_ids(int64_t rows, int32_t frequent) {
  Random random(static_cast<uint64_t>(rows));
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (int32_t& id : ids)
    id = random.below(2) == 0 ? frequent : static_cast<int32_t>(random.below(kVocabulary / 2)) * 2 - 1;
  return ids;
}

std::vector<int32_t> order_of(const std::vector<int32_t>& ids) {
  std::vector<int32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });
  return order;
}

}  // namespace

TEST_CASE("cuda: rows are sorted by id, equal ones in their order") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int64_t rows = GENERATE(0, 1, 2, 1000, 70000);
  const auto ids = random_ids(rows, 8);
  std::vector<int32_t> sorted = ids, order = ids;
  OnDevice on(*device);
  int32_t *at_sorted = on(sorted), *at_order = on(order);
  cuda::sort_rows(on.stream(), rows, on(ids), on.room(cuda::sort_room(rows)), at_sorted, at_order);
  on.read(at_sorted, sorted);
  on.read(at_order, order);
  const auto expected = order_of(ids);
  CHECK(order == expected);
  bool same = true;
  for (size_t i = 0; i < ids.size(); ++i) same = same && sorted[i] == ids[static_cast<size_t>(expected[i])];
  CHECK(same);
}

TEST_CASE("cuda: embeddings agree with the CPU's, their gradients with float64") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 512, 1000), rows = GENERATE(0, 1, 31, 300);
  const int32_t frequent = GENERATE(0, 8, kVocabulary - 1);
  const Dropout d{.rate = GENERATE(0.0f, 0.1f), .site = 8, .step = 2, .seed = 99};
  const auto n = static_cast<size_t>(width), all = static_cast<size_t>(rows) * n;
  const float factor = std::sqrt(static_cast<float>(width));
  const auto ids = random_ids(rows, frequent);
  auto positions = ids;
  for (size_t r = 0; r < positions.size(); ++r) positions[r] = static_cast<int32_t>(r % 11);
  const Array table(DType::kF32, random_values(kVocabulary * n, 1)), sinusoids(DType::kF32, random_values(11 * n, 2));
  const Array dout(t, random_values(all, 3)), before(DType::kF32, random_values(kVocabulary * n, 4));
  Array out(t, all);
  cpu::embed(t, {0, rows}, width, table.f32(), ids.data(), sinusoids.f32(), positions.data(), factor, d, out.data());
  // In float64: the CPU adds up hundreds of rows one after the other.
  auto dtable = before.values();
  const auto factors = dropout_factors(d, rows * width);
  for (size_t i = 0; i < all; ++i)
    if (ids[i / n] >= 0) dtable[static_cast<size_t>(ids[i / n]) * n + i % n] += factor * factors[i] * dout[i];

  const auto [found, dfound] = in_any_order(*device, [&](OnDevice& on) {
    Array y = out, dy = before;
    void *at = on(out), *at_dtable = on(before);
    const auto* at_ids = on(ids);
    cuda::embed(on.stream(), t, rows, width, static_cast<const float*>(on(table)), at_ids,
                static_cast<const float*>(on(sinusoids)), on(positions), factor, d, at);
    cuda::embed_backward(on.stream(), t, rows, width, on(dout), at_ids, factor, d, on.room(cuda::embed_room(rows)),
                         static_cast<float*>(at_dtable));
    on.read(at, y);
    on.read(at_dtable, dy);
    return std::pair(y, dy);
  });
  CHECK(worst_difference(t, found, out, 1e-6, 1e-6) <= 1);
  CHECK(worst_error(DType::kF32, dfound, dtable, 2e-6, 4e-6 * factor) <= 1);
}

TEST_CASE("cuda: the gradient of an id does not depend on the rows of others") {
  const auto device = test_device();
  if (device == nullptr) return;
  const int64_t width = 64;
  const int64_t rows = GENERATE(5, 32, 33, 400);  // of the id
  std::vector<Array> found;
  for (const int64_t others : {0, 1, 17, 100}) {
    std::vector<int32_t> ids(static_cast<size_t>(rows), 5);
    ids.insert(ids.begin(), static_cast<size_t>(others), 3);
    ids.insert(ids.end(), static_cast<size_t>(others), 6);
    Array dout(DType::kF32, std::vector<double>(ids.size() * width, 1));
    const auto values = random_values(static_cast<size_t>(rows * width), 1);
    for (size_t i = 0; i < values.size(); ++i) dout.set(static_cast<size_t>(others * width) + i, values[i]);
    OnDevice on(*device);
    Array dtable(DType::kF32, std::vector<double>(7 * width, 0)), row(DType::kF32, width);
    void* const at = on(dtable);
    const auto count = static_cast<int64_t>(ids.size());
    cuda::embed_backward(on.stream(), DType::kF32, count, width, on(dout), on(ids), 0.3f, {},
                         on.room(cuda::embed_room(count)), static_cast<float*>(at));
    on.read(static_cast<std::byte*>(at) + 5 * width * 4, row);
    found.push_back(row);
  }
  for (const Array& row : found) CHECK(row == found[0]);
}
