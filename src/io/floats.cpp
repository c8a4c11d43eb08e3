#include "io/floats.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace nmt {
namespace {

// A number is NaN or infinite where all its exponent bits are set: a test without branches, so that it runs in SIMD.
template <class Bits>
int64_t first_with_exponent(std::span<const std::byte> data, Bits exponent) {
  const auto* bits = reinterpret_cast<const Bits*>(data.data());
  const auto n = static_cast<int64_t>(data.size() / sizeof(Bits));
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
    if (found == 0) continue;
    for (int64_t i = begin;; ++i)
      if ((bits[i] & exponent) == exponent) return i;
  }
  return -1;
}

// IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 of fraction.
float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400) return std::bit_cast<float>(sign | ((rest << 13) + ((127u - 15u) << 23)));
  const float subnormal = static_cast<float>(rest) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

}  // namespace

int64_t first_not_finite(DType dtype, std::span<const std::byte> data) {
  switch (dtype) {
    case DType::kF32:
      return first_with_exponent<uint32_t>(data, 0x7f800000u);
    case DType::kBF16:
      return first_with_exponent<uint16_t>(data, 0x7f80u);
    case DType::kF16:
      return first_with_exponent<uint16_t>(data, 0x7c00u);
    case DType::kF64:
      return first_with_exponent<uint64_t>(data, 0x7ff0000000000000u);
    default:
      return -1;
  }
}

void convert_to_float(DType dtype, std::span<const std::byte> data, std::span<float> out) {
  check(fits_float(dtype) && data.size() == out.size() * size_of(dtype), "{} bytes of {} do not make {} numbers",
        data.size(), name_of(dtype), out.size());
  if (out.empty()) return;
  const auto* halves = reinterpret_cast<const uint16_t*>(data.data());
  if (dtype == DType::kF32) {
    std::memcpy(out.data(), data.data(), data.size());
  } else if (dtype == DType::kBF16) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<float>(static_cast<uint32_t>(halves[i]) << 16);
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = float_of_half(halves[i]);
  }
}

}  // namespace nmt
