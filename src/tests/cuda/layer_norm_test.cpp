#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

constexpr float kEps = 1e-6f;

float* f32(void* at) { return static_cast<float*>(at); }

}  // namespace

TEST_CASE("cuda: layer norm of a residual with dropout agrees with the CPU's, whatever is asked for") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 512, 1000, 1024, 8000), rows = GENERATE(0, 9);
  const Dropout d{.rate = GENERATE(0.0f, 0.1f), .site = 3, .step = 4, .seed = 5};
  const bool residual = GENERATE(true, false);
  const auto n = static_cast<size_t>(width), all = static_cast<size_t>(rows) * n;
  const Array x(t, random_values(all, 1, 2, 0.5)), y(t, random_values(all, 2));
  const Array scale(DType::kF32, random_values(n, 3)), bias(DType::kF32, random_values(n, 4));
  Array sum(t, all), out(t, all), stats(DType::kF32, 2 * static_cast<size_t>(rows));
  cpu::add_dropout_layer_norm(t, {0, rows}, width, x.data(), residual ? y.data() : nullptr, d, scale.f32(), bias.f32(),
                              kEps, sum.data(), out.data(), stats.f32());

  const auto found = in_any_order(*device, [&](OnDevice& on) {
    std::array<Array, 3> found = {sum, out, stats};
    const void* const added = residual ? on(y) : nullptr;
    void *at_sum = on(sum), *at_out = on(out), *at_stats = on(stats);
    cuda::add_dropout_layer_norm(on.stream(), t, rows, width, on(x), added, d, f32(on(scale)), f32(on(bias)), kEps,
                                 at_sum, at_out, f32(at_stats));
    on.read(at_sum, found[0]);
    on.read(at_out, found[1]);
    on.read(at_stats, found[2]);
    Array alone = out;
    cuda::add_dropout_layer_norm(on.stream(), t, rows, width, on(x), added, d, f32(on(scale)), f32(on(bias)), kEps,
                                 nullptr, at_out, f32(at_stats));
    on.read(at_out, alone);
    CHECK(alone == found[1]);
    return found;
  });
  CHECK(worst_difference(t, found[0], sum, 2e-7, 1e-6) <= 1);
  CHECK(worst_difference(t, found[1], out, 2e-6, 5e-6) <= 1);
  CHECK(worst_difference(DType::kF32, found[2], stats, 2e-6, 1e-6) <= 1);
}

TEST_CASE("cuda: layer norm loses nothing to a large common offset, and a constant row gives the bias") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t width = 512;
  auto values = random_values(width, 1);
  for (double& v : values) v = std::round(v * 16) / 16 + 65536;  // exact in float32; E[x^2] - E[x]^2 would be noise
  values.resize(2 * width, 123456.789);
  const Array x(DType::kF32, values), scale(DType::kF32, std::vector<double>(width, 1));
  const Array bias(DType::kF32, random_values(width, 2));
  double mean = 0, variance = 0;
  for (size_t i = 0; i < width; ++i) mean += values[i] / width;
  for (size_t i = 0; i < width; ++i) variance += std::pow(values[i] - mean, 2) / width;

  OnDevice on(*device);
  Array out = x, stats(DType::kF32, 4);
  void *at_out = on(out), *at_stats = on(stats);
  cuda::add_dropout_layer_norm(on.stream(), DType::kF32, 2, width, on(x), nullptr, {}, f32(on(scale)), f32(on(bias)),
                               kEps, nullptr, at_out, f32(at_stats));
  on.read(at_out, out);
  on.read(at_stats, stats);
  CHECK(stats[1] == Approx(1 / std::sqrt(variance)).epsilon(1e-4));
  for (size_t i = 0; i < width; ++i) {
    CHECK(out[i] == Approx((values[i] - mean) / std::sqrt(variance) + bias[i]).margin(0.008));
    CHECK(out[width + i] == bias[i]);
  }
}

TEST_CASE("cuda: gradients of layer norm agree with the CPU's, in place, and without the second output") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 512, 1000, 8000), rows = width > 1000 ? 35 : 75;  // several partial sums
  const Dropout d{.rate = GENERATE(0.0f, 0.3f), .site = 3, .step = 4, .seed = 5};
  const auto n = static_cast<size_t>(width), all = static_cast<size_t>(rows) * n;
  const Array z(t, random_values(all, 1, 2, 0.5)), dout(t, random_values(all, 2));
  const Array scale(DType::kF32, random_values(n, 3)), bias(DType::kF32, random_values(n, 4));
  Array stats(DType::kF32, 2 * static_cast<size_t>(rows)), out(t, all), dx(t, all), dy(t, all);
  cpu::add_dropout_layer_norm(t, {0, rows}, width, z.data(), nullptr, {}, scale.f32(), bias.f32(), kEps, nullptr,
                              out.data(), stats.f32());
  const Array dscale(DType::kF32, random_values(n, 5)), dbias(DType::kF32, random_values(n, 6));
  Array dscale_cpu = dscale, dbias_cpu = dbias;
  cpu::layer_norm_backward(t, {0, rows}, width, dout.data(), z.data(), stats.f32(), scale.f32(), d, dx.data(),
                           dy.data(), dscale_cpu.f32(), dbias_cpu.f32());

  const auto found = in_any_order(*device, [&](OnDevice& on) {
    std::array<Array, 4> found = {dx, dy, dscale, dbias};
    void *at_dx = on(dout), *at_dy = on(dy), *at_dscale = on(dscale), *at_dbias = on(dbias);
    void* const room = on.room(4 * cuda::layer_norm_room(rows, width));
    cuda::layer_norm_backward(on.stream(), t, rows, width, at_dx, on(z), f32(on(stats)), f32(on(scale)), d, at_dx,
                              at_dy, f32(room), f32(at_dscale), f32(at_dbias));
    on.read(at_dx, found[0]);
    on.read(at_dy, found[1]);
    on.read(at_dscale, found[2]);
    on.read(at_dbias, found[3]);
    Array alone = dx;
    cuda::layer_norm_backward(on.stream(), t, rows, width, on(dout), on(z), f32(on(stats)), f32(on(scale)), d, at_dx,
                              nullptr, f32(room), f32(at_dscale), f32(at_dbias));
    on.read(at_dx, alone);
    CHECK(alone == found[0]);
    return found;
  });
  // A width of one divides by sqrt(eps): 1000 times the rounding errors.
  const double margin = width == 1 ? 1e-3 : 2e-6;
  CHECK(worst_difference(t, found[0], dx, 2e-6, margin) <= 1);
  CHECK(worst_difference(t, found[1], dy, 2e-6, margin) <= 1);
  CHECK(worst_difference(DType::kF32, found[2], dscale_cpu, 1e-6, 1e-5) <= 1);
  CHECK(worst_difference(DType::kF32, found[3], dbias_cpu, 1e-6, 1e-5) <= 1);
}

TEST_CASE("cuda: the gradient of no rows of layer norm adds nothing") {
  const auto device = test_device();
  if (device == nullptr) return;
  const Array before(DType::kF32, random_values(33, 1));
  OnDevice on(*device);
  void *const dscale = on(before), *const dbias = on(before);
  cuda::layer_norm_backward(on.stream(), DType::kF32, 0, 33, nullptr, nullptr, nullptr, f32(on(before)), {}, nullptr,
                            nullptr, nullptr, f32(dscale), f32(dbias));
  for (const void* at : {dscale, dbias}) {
    Array after = before;
    on.read(at, after);
    CHECK(after == before);
  }
}

TEST_CASE("cuda: layer norm of rows too wide for a block is a programmer's error") {
  const auto device = test_device();
  if (device == nullptr) return;
  CHECK_THROWS_AS(cuda::add_dropout_layer_norm(device->stream(), DType::kF32, 1, 8193, nullptr, nullptr, {}, nullptr,
                                               nullptr, kEps, nullptr, nullptr, nullptr),
                  std::logic_error);
}
