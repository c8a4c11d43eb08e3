#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

TEST_CASE("cuda: Adam agrees with the CPU's") {
  const auto device = test_device();
  if (device == nullptr) return;
  const size_t n = GENERATE(0, 1, 7, 33, 65, 512, 1000, 8000), shift = GENERATE(0, 4);
  const bool averaged = GENERATE(true, false);
  const Adam a{.rate = 0.01f,
               .beta1 = 0.9f,
               .beta2 = 0.98f,
               .eps = 1e-9f,
               .correction1 = 1 - 0.9f * 0.9f,
               .correction2 = 1 - 0.98f * 0.98f,
               .grad_scale = 0.25f,
               .smoothing = 0.05f};
  Array g(DType::kF32, random_values(n, 1, 0.01)), m(DType::kF32, random_values(n, 2, 0.01));
  Array v(DType::kF32, random_values(n, 3, 1e-5, 1e-4)), p(DType::kF32, random_values(n, 4)), average = p;
  const DType t_copy = GENERATE(DType::kF32, DType::kBF16, DType::kF16);  // kF32: none
  Array copy(t_copy, p.values());
  OnDevice on(*device);
  void* const at_copy = on(copy);
  void *at_g = on(g, shift), *at_m = on(m), *at_v = on(v), *at_p = on(p), *at_average = on(average);
  const auto f32 = [](void* at) { return static_cast<float*>(at); };
  const auto count = static_cast<int64_t>(n);
  const std::vector<Update> update(1, {.made = GENERATE(true, false), .adam = a});
  cuda::adam(on.stream(), on(update), count, f32(at_g), f32(at_m), f32(at_v), f32(at_p),
             averaged ? f32(at_average) : nullptr, t_copy, t_copy == DType::kF32 ? nullptr : at_copy);
  if (update[0].made)
    cpu::adam(a, 0, count, g.f32(), m.f32(), v.f32(), p.f32(), averaged ? average.f32() : nullptr);
  else
    g = Array(DType::kF32, std::vector<double>(n, 0));
  const auto check = [&](const void* at, const Array& expected, double relative, double absolute) {
    Array x(DType::kF32, n);
    on.read(at, x);
    CHECK(worst_difference(DType::kF32, x, expected, relative, absolute) <= 1);
  };
  check(at_g, g, 0, 0);
  check(at_m, m, 2e-7, 1e-10);
  check(at_v, v, 2e-7, 0);
  check(at_p, p, 2e-7, 1e-8);
  check(at_average, average, 2e-7, 1e-8);
  if (t_copy == DType::kF32) return;
  Array updated(DType::kF32, n);
  on.read(at_p, updated);
  on.read(at_copy, copy);
  CHECK(copy == Array(t_copy, updated.values()));
}
