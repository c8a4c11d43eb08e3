#include "base/hash.h"

namespace nmt {
namespace {

// Finaliser of SplitMix64 (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  uint64_t hash = mix(seed + 0x9E3779B97F4A7C15u);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8 && i + k < bytes.size(); ++k)
      word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i + k])) << (8 * k);
    hash = mix(hash ^ word) + 0x9E3779B97F4A7C15u;
  }
  return mix(hash ^ bytes.size());
}

}  // namespace nmt
