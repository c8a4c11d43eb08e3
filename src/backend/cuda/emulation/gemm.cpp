#include "backend/cuda/gemm.h"

#include <bit>
#include <vector>

#include "backend/cuda/emulation/allocations.h"
#include "backend/cuda/emulation/run.h"
#include "backend/cuda/launch.cuh"

namespace nmt::cuda {
namespace {

int64_t bytes_of(int64_t elements, DType t) { return elements * static_cast<int64_t>(size_of(t)); }
const void* at(DType t, const void* data, int64_t element) {
  return static_cast<const std::byte*>(data) + bytes_of(element, t);
}

// Element (r, c) of a row-major [rows, columns] matrix, or of its transpose, as float32.
std::vector<float> plain(DType t, bool transposed, int64_t rows, int64_t columns, const void* data, bool tf32) {
  std::vector<float> all(static_cast<size_t>(rows * columns));
  with_type(t, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(data);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        all[static_cast<size_t>(r * columns + c)] = to_float(x[transposed ? c * rows + r : r * columns + c]);
  });
  if (tf32)
    for (float& v : all) v = std::bit_cast<float>((std::bit_cast<uint32_t>(v) + 0x1000) & ~uint32_t{0x1fff});
  return all;
}

// tf32: of the operands.
void multiply(const Product& p, bool tf32, const void* a, const void* b, void* y) {
  std::vector<float> row(static_cast<size_t>(p.n));
  for (int64_t i = 0; i < p.count; ++i) {
    const auto left = plain(p.t, p.transpose_a, p.m, p.k, at(p.t, a, i * p.m * p.k), tf32);
    const auto right = plain(p.t, p.transpose_b, p.k, p.n, at(p.t, b, i * p.k * p.n), tf32);
    for (int64_t r = 0; r < p.m; ++r) {
      std::fill(row.begin(), row.end(), 0.f);
      for (int64_t k = 0; k < p.k; ++k)
        for (int64_t c = 0; c < p.n; ++c)
          row[static_cast<size_t>(c)] +=
              left[static_cast<size_t>(r * p.k + k)] * right[static_cast<size_t>(k * p.n + c)];
      with_type(p.ty, [&](auto type) {
        using T = decltype(type);
        auto* to = static_cast<T*>(y) + (i * p.m + r) * p.n;
        for (int64_t c = 0; c < p.n; ++c) {
          float value = row[static_cast<size_t>(c)];
          if (p.bias != nullptr) value += to_float(static_cast<const T*>(p.bias)[c]);
          if (p.accumulate) value += to_float(to[c]);
          to[c] = rounded<T>(p.activation == Activation::kRelu && value < 0 ? 0 : value);
        }
      });
    }
  }
}

}  // namespace

struct Products::Implementation {};

Products::Products(Device& device) : device_(device) {}
Products::~Products() = default;

const char* Products::begin(const Product& p, const void* a, const void* b, void* y) {
  // A library may be as strict as this.
  if (p.bias != nullptr && size_of(p.ty) * static_cast<size_t>(p.n) % 16 != 0) return "the bias's width is odd";
  const auto check = [&](const char* what, const void* data, int64_t elements, DType t) {
    const auto size = static_cast<size_t>(bytes_of(elements, t));
    if (size > 0) emulation::allocations().check(device_, what, data, size);
  };
  check("left operand", a, p.count * p.m * p.k, p.t);
  check("right operand", b, p.count * p.k * p.n, p.t);
  check("product", y, p.count * p.m * p.n, p.ty);
  if (p.bias != nullptr) check("bias", p.bias, p.n, p.ty);
  emulation::begin([=, tf32 = tf32] { cuda::multiply(p, tf32, a, b, y); });
  return nullptr;
}

}  // namespace nmt::cuda
