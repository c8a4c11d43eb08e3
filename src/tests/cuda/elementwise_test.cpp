#include <functional>

#include "backend/cuda/kernels.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;
using cuda::Function;
using cuda::Stream;

namespace {

// What a device computes of one or two arrays, and the CPU; `relative` is the error allowed beside it, 0: the same
// bits.
struct Case {
  const char* name;
  std::function<void(Stream, DType, int64_t, const void*, const void*, void*)> device;
  std::function<void(DType, int64_t, int64_t, const void*, const void*, void*)> host;
  double relative = 0, absolute = 0;
};

std::vector<Case> cases() {
  const auto forward = [](Function f) {
    return [f](Stream s, DType t, int64_t n, const void* x, const void*, void* y) { cuda::apply(s, t, f, n, x, y); };
  };
  const auto backward = [](Function f) {
    return [f](Stream s, DType t, int64_t n, const void* x, const void* dy, void* dx) {
      cuda::apply_backward(s, t, f, n, x, dy, dx);
    };
  };
  const auto unary = [](auto f) {
    return [f](DType t, int64_t b, int64_t e, const void* x, const void*, void* y) { f(t, b, e, x, y); };
  };
  return {
      {"relu", forward(Function::kRelu), unary(cpu::relu)},
      {"gelu", forward(Function::kGelu), unary(cpu::gelu), 1e-6, 1e-37},
      {"silu", forward(Function::kSilu), unary(cpu::silu), 1e-6, 1e-35},
      {"relu_backward", backward(Function::kRelu), cpu::relu_backward},
      {"gelu_backward", backward(Function::kGelu), cpu::gelu_backward, 1e-6, 1e-6},
      {"silu_backward", backward(Function::kSilu), cpu::silu_backward, 1e-6, 1e-6},
      {"multiply",
       [](Stream s, DType t, int64_t n, const void* a, const void* b, void* y) { cuda::multiply(s, t, n, a, b, y); },
       cpu::multiply},
      {"add",
       [](Stream s, DType t, int64_t n, const void* a, const void* b, void* y) { cuda::add(s, t, t, n, n, a, b, y); },
       cpu::add},
      {"scale",
       [](Stream s, DType t, int64_t n, const void* x, const void*, void* y) { cuda::scale(s, t, n, x, 0.3f, y); },
       [](DType t, int64_t b, int64_t e, const void* x, const void*, void* y) { cpu::scale(t, b, e, x, 0.3f, y); }},
  };
}

}  // namespace

TEST_CASE("cuda: elementwise kernels agree with the CPU's, in place too, wherever memory begins") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const size_t n = GENERATE(0, 1, 7, 33, 65, 512, 1000, 8000);
  const size_t shift = GENERATE(0, 1) * size_of(t);
  const Array a(t, random_values(n, 1, 4)), b(t, random_values(n, 2));
  const auto count = static_cast<int64_t>(n);
  for (const Case& c : cases()) {
    INFO(c.name << ", " << n << " elements");
    Array expected(t, n);
    c.host(t, 0, count, a.data(), b.data(), expected.data());
    const Array y = in_any_order(*device, [&](OnDevice& on) {
      Array y(t, n), in_place(t, n);
      void* const at = on(y, shift);
      void* const at_a = on(a, shift);
      c.device(on.stream(), t, count, at_a, on(b), at);
      c.device(on.stream(), t, count, at_a, on(b), at_a);
      on.read(at, y);
      on.read(at_a, in_place);
      CHECK(y == in_place);
      return y;
    });
    if (c.relative == 0)
      CHECK(y == expected);
    else
      CHECK(worst_error(t, y, expected.values(), c.relative, c.absolute) <= 1);
  }
}

TEST_CASE("cuda: activations of extreme values") {
  const auto device = test_device();
  if (device == nullptr) return;
  const Array x(DType::kF32, {0, -0.0, 100, -100, 1e30, -1e30, 3e38, -3e38, kNaN});
  const Array ones(DType::kF32, std::vector<double>(9, 1));
  for (const Case& c : cases()) {
    INFO(c.name);
    Array expected(DType::kF32, 9), y = expected;
    c.host(DType::kF32, 0, 9, x.data(), ones.data(), expected.data());
    OnDevice on(*device);
    void* const at = on(y);
    c.device(on.stream(), DType::kF32, 9, on(x), on(ones), at);
    on.read(at, y);
    CHECK(worst_error(DType::kF32, y, expected.values(), 1e-6, 1e-6) <= 1);
  }
}

TEST_CASE("cuda: what is added may be shorter, and of another dtype") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType t = GENERATE(DType::kF32, DType::kBF16), tb = GENERATE(DType::kF32, DType::kBF16);
  const size_t period = GENERATE(1, 7, 64, 1000), n = 9 * period;
  const Array a(t, random_values(n, 1)), b(tb, random_values(period, 2));
  Array expected(t, n);
  for (size_t i = 0; i < n; ++i) expected.set(i, static_cast<float>(a[i]) + static_cast<float>(b[i % period]));
  OnDevice on(*device);
  Array y(t, n);
  void* const at = on(y);
  cuda::add(on.stream(), t, tb, static_cast<int64_t>(n), static_cast<int64_t>(period), on(a), on(b), at);
  on.read(at, y);
  CHECK(y == expected);
}

TEST_CASE("cuda: conversions round as the CPU's, and fill fills") {
  const auto device = test_device();
  if (device == nullptr) return;
  const DType from = GENERATE(DType::kF32, DType::kBF16), to = GENERATE(DType::kF32, DType::kBF16);
  const size_t n = GENERATE(0, 1, 7, 8, 1000);
  auto values = random_values(n, 1, 1e3);
  if (n > 8) values[3] = 1 + 1.0 / 256, values[4] = 1 + 3.0 / 256, values[5] = 3.4e38, values[6] = -kInf;  // ties
  const Array x(from, values);
  Array expected(to, n), y(to, n);
  cpu::convert(from, x.data(), to, expected.data(), static_cast<int64_t>(n));
  OnDevice on(*device);
  void* const at = on(y);
  cuda::convert(on.stream(), from, on(x), to, at, static_cast<int64_t>(n));
  on.read(at, y);
  CHECK(y == expected);
  cuda::fill(on.stream(), to, static_cast<int64_t>(n), 1.5f, at);
  on.read(at, y);
  CHECK(y == Array(to, std::vector<double>(n, 1.5)));
}
