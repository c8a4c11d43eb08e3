#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Numbers of 16 bits.
namespace nmt::cuda::emulation {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline float from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits >> 15) != 0 ? -1.f : 1.f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25));
}

// To nearest even; what is beyond the largest number by half a unit is infinite.
inline uint16_t to_f16(float x) {
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  if (std::isnan(x)) return sign | 0x7e00;
  x = std::fabs(x);
  if (x >= 65520) return sign | 0x7c00;
  if (x < 0x1p-14f) return static_cast<uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(x, 24))));
  int exponent = 0;
  std::frexp(x, &exponent);  // x < 2^exponent
  // Units of the last place, 1024 to 2048: the mantissa may round up into the next exponent, as it should.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(x, 11 - exponent)));
  return static_cast<uint16_t>(sign | (units + ((exponent + 13) << 10)));
}

}  // namespace nmt::cuda::emulation
