#pragma once

#include <bit>
#include <cstdint>

#include "tensor/on_device.h"

// Elements of a row as integers above 0 that sort like (value, lower index first): the best are the largest.
namespace nmt {

NMT_ON_DEVICE_TOO inline uint64_t key_of(float value, uint32_t index) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 and 0 are equal
  const uint64_t order = bits >> 31 ? ~bits : bits ^ 0x80000000u;
  return order << 32 | ~index;
}

NMT_ON_DEVICE_TOO inline float value_of(uint64_t key) {
  const auto order = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(order >> 31 ? order ^ 0x80000000u : ~order);
}

NMT_ON_DEVICE_TOO inline int32_t index_of(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

}  // namespace nmt
