#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// Rows of logits: ordinary, spread wide, with a large offset, partly -inf, -inf only, with NaN; and some more.
Array logits(DType t, int64_t width) {
  const auto n = static_cast<size_t>(width);
  std::vector<double> all;
  for (const auto& row :
       {random_values(n, 1), random_values(n, 2, 30), random_values(n, 3, 3, 1e4), random_values(n, 4),
        std::vector<double>(n, -kInf), random_values(n, 5), random_values(n, 6)}) {
    all.insert(all.end(), row.begin(), row.end());
  }
  for (size_t i = 3 * n + 1; i < 4 * n; i += 2) all[i] = -kInf;
  all[5 * n + n / 2] = kNaN;
  return {t, all};
}

}  // namespace

TEST_CASE("cuda: softmax, log-softmax and their gradients agree with the CPU's") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 512, 1000, 8000, 8001), rows = GENERATE(0, 7);
  const bool log = GENERATE(false, true);
  const Array x = rows == 0 ? Array(t, 0) : logits(t, width);
  const Array dy(t, random_values(x.size(), 9));
  Array expected(t, x.size()), dexpected(t, x.size());
  (log ? cpu::log_softmax : cpu::softmax)(t, {0, rows}, width, x.data(), expected.data());
  (log ? cpu::log_softmax_backward : cpu::softmax_backward)(t, {0, rows}, width, expected.data(), dy.data(),
                                                            dexpected.data());
  const auto [y, dx] = in_any_order(*device, [&](OnDevice& on) {
    Array y = x, dx = dy;
    void* const at = on(x);
    void* const at_dx = on(dy);
    cuda::softmax(on.stream(), t, log, rows, width, at, at);
    cuda::softmax_backward(on.stream(), t, log, rows, width, on(expected), at_dx, at_dx);
    on.read(at, y);
    on.read(at_dx, dx);
    return std::pair(y, dx);
  });
  CHECK(worst_difference(t, y, expected, 5e-6, log ? 2e-6 : 1e-37) <= 1);
  CHECK(worst_difference(t, dx, dexpected, 2e-6, 1e-5) <= 1);
}
