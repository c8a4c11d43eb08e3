#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nmt {

// 64-bit hash of bytes; the same on every machine and in every version, so it may be stored (not cryptographic).
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
inline uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0) {
  return hash64({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, seed);
}

}  // namespace nmt
