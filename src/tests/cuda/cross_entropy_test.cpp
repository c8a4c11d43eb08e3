#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("cuda: cross-entropy and its gradient agree with the CPU's") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 512, 1000, 8000, 32001), rows = GENERATE(0, 6);
  const float smoothing = GENERATE(0.0f, 0.1f), weight = 0.125f, factor = 3;
  const double offset = GENERATE(0.0, 4096.0);
  const auto n = static_cast<size_t>(width), count = static_cast<size_t>(rows);
  Array logits(DType::kF32, random_values(count * n, 1, 3, offset));
  const auto last = static_cast<int32_t>(width - 1);
  const std::vector<int32_t> labels = {0, last, -1, last / 2, last / 3, last / 2};
  for (size_t i = 0; i < n && rows > 0; ++i)
    logits.set(4 * n + i, offset + (static_cast<int32_t>(i) == labels[4] ? 60 : -60));
  // Compared with float32: the CPU's bf16 is rounded twice.
  Array loss(DType::kF32, count), nll(DType::kF32, count), dlogits(DType::kF32, count * n);
  std::vector<float> looked(static_cast<size_t>(cpu::LogitTiles::floats(rows, width, width)));
  const auto tiles = cpu::LogitTiles::in(looked.data(), rows, width, width);
  cpu::look_at_logits(DType::kF32, tiles, {0, rows}, 0, logits.f32(), labels.data(), dlogits.data());
  cpu::cross_entropy(DType::kF32, tiles, {0, rows}, labels.data(), smoothing, weight * factor, loss.f32(), nll.f32(),
                     dlogits.data());

  const auto found = in_any_order(*device, [&](OnDevice& on) {
    std::array<Array, 3> found = {loss, nll, Array(t, count * n)};
    const auto* at = static_cast<const float*>(on(logits));
    auto *at_loss = static_cast<float*>(on(loss)), *at_nll = static_cast<float*>(on(nll));
    void* const at_dlogits = on(found[2]);
    const float *at_weight = on(std::vector<float>{weight}), *at_factor = on(std::vector<float>{factor});
    cuda::cross_entropy(on.stream(), t, rows, width, at, on(labels), smoothing, at_weight, at_factor, at_loss, at_nll,
                        at_dlogits);
    on.read(at_loss, found[0]);
    on.read(at_nll, found[1]);
    on.read(at_dlogits, found[2]);

    Array alone = loss;
    cuda::cross_entropy(on.stream(), t, rows, width, at, on(labels), smoothing, at_weight, nullptr, at_loss, nullptr,
                        nullptr);
    on.read(at_loss, alone);
    CHECK(alone == found[0]);
    Array tripled = found[2];
    cuda::cross_entropy(on.stream(), t, rows, width, at, on(labels), smoothing, on(std::vector<float>{weight * factor}),
                        nullptr, nullptr, nullptr, at_dlogits);
    on.read(at_dlogits, tripled);
    CHECK(tripled == found[2]);
    return found;
  });
  CHECK(worst_difference(DType::kF32, found[0], loss, 2e-6, 2e-6) <= 1);
  CHECK(worst_difference(DType::kF32, found[1], nll, 2e-6, 1e-6) <= 1);
  CHECK(worst_error(t, found[2], dlogits.values(), 5e-6, 2e-7) <= 1);
}

TEST_CASE("cuda: a logit of -inf has no probability and, without smoothing, no influence; NaN shows") {
  const auto device = test_device();
  if (device == nullptr) return;
  const Array logits(DType::kF32, {1, -kInf, 2, 1, kNaN, 2});
  Array loss(DType::kF32, 2), dlogits(DType::kF32, 6);
  OnDevice on(*device);
  void *at_loss = on(loss), *at_dlogits = on(dlogits);
  cuda::cross_entropy(on.stream(), DType::kF32, 2, 3, static_cast<const float*>(on(logits)),
                      on(std::vector<int32_t>{2, 2}), 0, on(std::vector<float>{1}), nullptr,
                      static_cast<float*>(at_loss), nullptr, at_dlogits);
  on.read(at_loss, loss);
  on.read(at_dlogits, dlogits);
  CHECK(loss[0] == Approx(std::log(1 + std::exp(-1.0))));
  CHECK(dlogits[1] == 0);
  CHECK(std::isnan(loss[1]));
  CHECK(std::isnan(dlogits[3]));
}
