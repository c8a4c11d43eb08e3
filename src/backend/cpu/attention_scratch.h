#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/math.h"

namespace nmt::cpu {

inline constexpr size_t kScratchAlignment = 64;  // bytes: a cache line and the widest vector

// The calling thread's scratch memory: at least `floats` floats. It grows to the largest need and stays; the next call
// gives the same memory again.
inline float* scratch(size_t floats) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  static thread_local std::unique_ptr<float, Free> memory;
  static thread_local size_t bytes = 0;

  size_t need = floats * sizeof(float);
  if (need > bytes) {
    memory.reset();
    bytes = 0;
    need = (need + need / 4 + kScratchAlignment) / kScratchAlignment * kScratchAlignment;
    memory.reset(static_cast<float*>(std::aligned_alloc(kScratchAlignment, need)));
    if (memory == nullptr) throw std::bad_alloc();
    bytes = need;
  }
  return memory.get();
}

// The same, cut into aligned arrays of the given numbers of floats.
template <size_t kArrays>
std::array<float*, kArrays> scratch_arrays(const int64_t (&sizes)[kArrays]) {
  constexpr int64_t kUnit = kScratchAlignment / sizeof(float);
  std::array<size_t, kArrays + 1> offsets{};
  for (size_t i = 0; i < kArrays; ++i) offsets[i + 1] = offsets[i] + static_cast<size_t>(round_up(sizes[i], kUnit));
  float* memory = scratch(offsets[kArrays]);
  std::array<float*, kArrays> arrays;
  for (size_t i = 0; i < kArrays; ++i) arrays[i] = memory + offsets[i];
  return arrays;
}

}  // namespace nmt::cpu
