#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

constexpr float kEps = 1e-6f;

struct Reference {
  std::vector<double> sum, out, mean, inverse;
};

Reference layer_norm(const std::vector<double>& x, const std::vector<double>& y, const std::vector<double>& factors,
                     const Array& scale, const Array& bias, size_t width) {
  Reference ref;
  ref.sum = x;
  for (size_t i = 0; i < y.size(); ++i) ref.sum[i] += y[i] * factors[i];
  ref.out.resize(x.size());
  for (size_t r = 0; r < x.size(); r += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i) mean += ref.sum[r + i] / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) variance += std::pow(ref.sum[r + i] - mean, 2) / static_cast<double>(width);
    const double inverse = 1 / std::sqrt(variance + kEps);
    for (size_t i = 0; i < width; ++i) ref.out[r + i] = (ref.sum[r + i] - mean) * inverse * scale[i] + bias[i];
    ref.mean.push_back(mean);
    ref.inverse.push_back(inverse);
  }
  return ref;
}

TEST_CASE("layer norm of a residual with dropout agrees with float64, whatever is asked for") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 511, 512, 513, 2500);
  const float rate = GENERATE(0.0f, 0.1f);
  const bool residual = GENERATE(true, false);
  const Dropout d{.rate = rate, .site = 3, .step = 4, .seed = 5};
  const auto n = static_cast<size_t>(width);
  const int64_t rows = 11;  // more than go on together
  const auto count = static_cast<size_t>(rows);
  const Array x(t, random_values(count * n, 1, 2, 0.5)), y(t, random_values(count * n, 2));
  const Array scale(DType::kF32, random_values(n, 3)), bias(DType::kF32, random_values(n, 4));
  const auto ref = layer_norm(x.values(), residual ? y.values() : std::vector<double>(),
                              dropout_factors(d, rows * width), scale, bias, n);
  const void* added = residual ? y.data() : nullptr;

  Array sum(t, x.size()), out(t, x.size()), stats(DType::kF32, 2 * count);
  cpu::add_dropout_layer_norm(t, {0, rows}, width, x.data(), added, d, scale.f32(), bias.f32(), kEps, sum.data(),
                              out.data(), stats.f32());
  CHECK(worst_error(t, sum, ref.sum, 2e-7, 1e-6) <= 1);
  // A width of one has no variance: sums that round differently are not comparable there.
  CHECK(worst_error(t, out, width == 1 ? std::vector<double>(count, bias[0]) : ref.out, 2e-6, 5e-6) <= 1);
  for (size_t r = 0; r < count; ++r) {
    CHECK(stats[2 * r] == Approx(ref.mean[r]).epsilon(1e-6).margin(1e-6));
    CHECK(stats[2 * r + 1] == Approx(ref.inverse[r]).epsilon(2e-6));
  }

  Array pieces(t, x.size()), piece_stats(DType::kF32, 2 * count);
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cpu::add_dropout_layer_norm(t, {begin, end}, width, x.data(), added, d, scale.f32(), bias.f32(), kEps, nullptr,
                                pieces.data(), piece_stats.f32());
  });
  CHECK(pieces == out);
  CHECK(piece_stats == stats);
}

TEST_CASE("layer norm loses nothing to a large common offset, and a constant row gives the bias") {
  const Target target(GENERATE(from_range(targets())));
  const size_t width = 512;
  auto values = random_values(width, 1);
  for (double& v : values) v = std::round(v * 16) / 16 + 65536;  // exact in float32; E[x^2] - E[x]^2 would be noise
  const Array x(DType::kF32, values), constant(DType::kF32, std::vector<double>(width, 123456.789));
  const Array scale(DType::kF32, std::vector<double>(width, 1)), bias(DType::kF32, random_values(width, 2));
  const auto ref = layer_norm(values, {}, {}, scale, bias, width);
  Array out(DType::kF32, width), stats(DType::kF32, 2);
  cpu::add_dropout_layer_norm(DType::kF32, {0, 1}, width, x.data(), nullptr, {}, scale.f32(), bias.f32(), kEps, nullptr,
                              out.data(), stats.f32());
  CHECK(stats[1] == Approx(ref.inverse[0]).epsilon(1e-4));
  CHECK(worst_error(DType::kF32, out, ref.out, 0, 0.008) <= 1);  // the float32 mean is known to 1/256

  // So far off, the mean itself is rounded to 1/2: what that adds to the deviations is no variance.
  auto far = random_values(width, 1);
  for (double& v : far) v = std::round(v * 2) / 2 + (1 << 22);
  cpu::add_dropout_layer_norm(DType::kF32, {0, 1}, width, Array(DType::kF32, far).data(), nullptr, {}, scale.f32(),
                              bias.f32(), kEps, nullptr, out.data(), stats.f32());
  CHECK(stats[1] == Approx(layer_norm(far, {}, {}, scale, bias, width).inverse[0]).epsilon(1e-4));

  cpu::add_dropout_layer_norm(DType::kF32, {0, 1}, width, constant.data(), nullptr, {}, scale.f32(), bias.f32(), kEps,
                              nullptr, out.data(), stats.f32());
  CHECK(out == bias);
}

TEST_CASE("gradients of layer norm agree with float64 differences") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(7, 33);
  const Dropout d{.rate = 0.25f, .site = 3, .step = 4, .seed = 5};
  const auto n = static_cast<size_t>(width);
  const int64_t rows = 3;
  const Array z(t, random_values(3 * n, 1, 2, 0.5)), dout(t, random_values(3 * n, 2));
  const Array scale(DType::kF32, random_values(n, 3)), bias(DType::kF32, random_values(n, 4));
  const auto factors = dropout_factors(d, rows * width);
  const auto ref = layer_norm(z.values(), {}, {}, scale, bias, n);
  Array stats(DType::kF32, 6);
  for (size_t r = 0; r < 3; ++r) {
    stats.set(2 * r, ref.mean[r]);
    stats.set(2 * r + 1, ref.inverse[r]);
  }

  const auto objective = [&](const std::vector<double>& at) {
    const auto out = layer_norm(at, {}, {}, scale, bias, n).out;
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
    return sum;
  };
  std::vector<double> dz(3 * n), dropped(3 * n);
  for (size_t i = 0; i < 3 * n; ++i) {
    const double h = 1e-5;
    auto up = z.values(), down = z.values();
    up[i] += h;
    down[i] -= h;
    dz[i] = (objective(up) - objective(down)) / (2 * h);
    dropped[i] = dz[i] * factors[i];
  }
  Array dx(t, 3 * n), dy(t, 3 * n), dscale(DType::kF32, std::vector<double>(n, 0)), dbias = dscale;
  cpu::layer_norm_backward(t, {0, rows}, width, dout.data(), z.data(), stats.f32(), scale.f32(), d, dx.data(),
                           dy.data(), dscale.f32(), dbias.f32());
  CHECK(worst_error(t, dx, dz, 1e-5, 1e-5) <= 1);
  CHECK(worst_error(t, dy, dropped, 1e-5, 1e-5) <= 1);
}

TEST_CASE("gradients of layer norm: parameters, in place, any pieces, without the second output") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int64_t width = GENERATE(1, 7, 33, 65, 511, 512, 513, 2500);
  const float rate = GENERATE(0.0f, 0.3f);
  const Dropout d{.rate = rate, .site = 3, .step = 4, .seed = 5};
  const auto n = static_cast<size_t>(width);
  const int64_t rows = 11;  // more than go on together
  const auto count = static_cast<size_t>(rows);
  const Array z(t, random_values(count * n, 1, 2, 0.5)), dout(t, random_values(count * n, 2));
  const Array scale(DType::kF32, random_values(n, 3)), bias(DType::kF32, random_values(n, 4));
  const auto ref = layer_norm(z.values(), {}, {}, scale, bias, n);
  const auto factors = dropout_factors(d, rows * width);
  Array stats(DType::kF32, 2 * count);
  for (size_t r = 0; r < count; ++r) {
    stats.set(2 * r, ref.mean[r]);
    stats.set(2 * r + 1, ref.inverse[r]);
  }

  std::vector<double> dz(count * n), dropped(count * n), dscale_ref(n, 1), dbias_ref(n, 2);
  for (size_t r = 0; r < count; ++r) {
    double mean_g = 0, mean_gn = 0;
    const auto normal = [&](size_t i) { return (z[r * n + i] - stats[2 * r]) * stats[2 * r + 1]; };
    for (size_t i = 0; i < n; ++i) {
      const double g = dout[r * n + i] * scale[i];
      mean_g += g / static_cast<double>(n);
      mean_gn += g * normal(i) / static_cast<double>(n);
      dscale_ref[i] += dout[r * n + i] * normal(i);
      dbias_ref[i] += dout[r * n + i];
    }
    for (size_t i = 0; i < n; ++i) {
      dz[r * n + i] = stats[2 * r + 1] * (dout[r * n + i] * scale[i] - mean_g - normal(i) * mean_gn);
      dropped[r * n + i] = dz[r * n + i] * factors[r * n + i];
    }
  }
  Array dx(t, count * n), dy(t, count * n);
  Array dscale(DType::kF32, std::vector<double>(n, 1)), dbias(DType::kF32, std::vector<double>(n, 2));
  cpu::layer_norm_backward(t, {0, rows}, width, dout.data(), z.data(), stats.f32(), scale.f32(), d, dx.data(),
                           dy.data(), dscale.f32(), dbias.f32());
  // A width of one divides by sqrt(eps): 1000 times the rounding errors.
  const double margin = width == 1 ? 1e-3 : 2e-6;
  CHECK(worst_error(t, dx, dz, 2e-6, margin) <= 1);
  CHECK(worst_error(t, dy, dropped, 2e-6, margin) <= 1);
  CHECK(worst_error(DType::kF32, dscale, dscale_ref, 1e-6, 3e-6) <= 1);
  CHECK(worst_error(DType::kF32, dbias, dbias_ref, 1e-6, 3e-6) <= 1);

  Array in_place = dout, dscale2(DType::kF32, std::vector<double>(n, 1)),
        dbias2(DType::kF32, std::vector<double>(n, 2));
  in_pieces(rows, [&](int64_t begin, int64_t end) {
    cpu::layer_norm_backward(t, {begin, end}, width, in_place.data(), z.data(), stats.f32(), scale.f32(), d,
                             in_place.data(), nullptr, dscale2.f32(), dbias2.f32());
  });
  CHECK(in_place == dx);
  CHECK(dscale2 == dscale);
  CHECK(dbias2 == dbias);
}

}  // namespace
