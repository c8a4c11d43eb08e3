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

// Memory of one thread for one purpose. It grows to the largest need and stays; what is in it lasts until the next
// get().
class Scratch {
 public:
  std::byte* get(size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // at once: nothing of it is kept
      bytes_ = 0;
      const size_t room = (bytes + bytes / 4 + kScratchAlignment) / kScratchAlignment * kScratchAlignment;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kScratchAlignment, room)));
      if (memory_ == nullptr) throw std::bad_alloc();
      bytes_ = room;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

// The calling thread's memory that scratch_arrays() cuts up: one, whatever their number.
inline Scratch& scratch_of_arrays() {
  static thread_local Scratch scratch;
  return scratch;
}

// Aligned arrays of the given numbers of floats, for the kernels of attention and recurrence. The next call in this
// thread gives the same memory again.
template <size_t kArrays>
std::array<float*, kArrays> scratch_arrays(const int64_t (&sizes)[kArrays]) {
  constexpr int64_t kUnit = kScratchAlignment / sizeof(float);
  std::array<size_t, kArrays + 1> offsets{};
  for (size_t i = 0; i < kArrays; ++i) offsets[i + 1] = offsets[i] + static_cast<size_t>(round_up(sizes[i], kUnit));
  auto* memory = reinterpret_cast<float*>(scratch_of_arrays().get(offsets[kArrays] * sizeof(float)));
  std::array<float*, kArrays> arrays;
  for (size_t i = 0; i < kArrays; ++i) arrays[i] = memory + offsets[i];
  return arrays;
}

}  // namespace nmt::cpu
