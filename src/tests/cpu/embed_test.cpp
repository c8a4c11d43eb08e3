#include <numeric>

#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

TEST_CASE("embeddings and their gradients agree with float64") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(from_range(std::begin(kWidths), std::end(kWidths)));
  const float rate = GENERATE(0.0f, 0.1f);
  const Dropout d{.rate = rate, .site = 8, .step = 2, .seed = 99};
  const float factor = std::sqrt(static_cast<float>(width));
  const auto n = static_cast<size_t>(width);
  const std::vector<int32_t> ids = {3, 0, -1, 3, 4, 1, 3, -1}, positions = {0, 1, 2, 3, 0, 1, 2, 3};
  const int64_t rows = 8;
  const Array table(DType::kF32, random_values(5 * n, 1)), sinusoids(DType::kF32, random_values(4 * n, 2));
  const auto factors = dropout_factors(d, rows * width);

  std::vector<double> reference(8 * n);
  for (size_t i = 0; i < reference.size(); ++i) {
    const size_t r = i / n, c = i % n;
    const double embedding = ids[r] < 0 ? 0 : factor * table[static_cast<size_t>(ids[r]) * n + c];
    reference[i] = factors[i] * (embedding + sinusoids[static_cast<size_t>(positions[r]) * n + c]);
  }
  Array out(t, 8 * n), pieces(t, 8 * n);
  cpu::embed(t, {0, rows}, width, table.f32(), ids.data(), sinusoids.f32(), positions.data(), factor, d, out.data());
  CHECK(worst_error(t, out, reference, 1e-6, 1e-6) <= 1);
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cpu::embed(t, {begin, end}, width, table.f32(), ids.data(), sinusoids.f32(), positions.data(), factor, d,
               pieces.data());
  });
  CHECK(pieces == out);

  std::vector<int32_t> order(8);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });
  const Array dout(t, random_values(8 * n, 3));
  std::vector<double> dreference(5 * n, 0.5);
  for (size_t i = 0; i < dout.size(); ++i) {
    const int32_t id = ids[i / n];
    if (id >= 0) dreference[static_cast<size_t>(id) * n + i % n] += factor * factors[i] * dout[i];
  }
  Array dtable(DType::kF32, std::vector<double>(5 * n, 0.5)), dpieces = dtable;
  cpu::embed_backward(t, {0, rows}, width, dout.data(), ids.data(), order.data(), factor, d, dtable.f32());
  CHECK(worst_error(DType::kF32, dtable, dreference, 1e-6, 2e-7 * factor * 8) <= 1);
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cpu::embed_backward(t, {begin, end}, width, dout.data(), ids.data(), order.data(), factor, d, dpieces.f32());
  });
  CHECK(dpieces == dtable);
}

}  // namespace
