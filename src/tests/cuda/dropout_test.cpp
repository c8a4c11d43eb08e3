#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("cuda: dropout gives the bits of the CPU's, wherever memory begins") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const float rate = GENERATE(0.0f, 0.1f, 0.5f, 0.99999f, 0.5f / 65536, 1.5f / 65536);
  const int64_t n = GENERATE(0, 1, 7, 33, 65, 512, 1000, 8000);
  const size_t shift = GENERATE(0, 1) * size_of(t);
  const Dropout d{.rate = rate, .site = 9, .step = 123456, .seed = 0x0123456789ABCDEF};
  const Array x(t, random_values(static_cast<size_t>(n), 1));
  Array expected(t, x.size());
  cpu::dropout(t, d, 0, n, x.data(), expected.data());

  const Array y = in_any_order(*device, [&](OnDevice& on) {
    Array y = x;
    void* const at = on(x, shift);
    cuda::dropout(on.stream(), t, d, n, at, at);
    on.read(at, y);
    return y;
  });
  CHECK(y == expected);
}
