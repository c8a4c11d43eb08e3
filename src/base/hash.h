#pragma once

#include <cstdint>
#include <string_view>

namespace nmt {

// 64-bit hash of bytes; the same on every machine and in every version, so it may be stored (not cryptographic).
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

}  // namespace nmt
