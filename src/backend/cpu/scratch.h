#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>

#include "base/aligned.h"
#include "base/math.h"

namespace nmt::cpu {

// Memory of one thread for one purpose. It grows to the largest need and stays; what is in it lasts until the next
// get().
class Scratch {
 public:
  std::byte* get(size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // at once: nothing of it is kept
      bytes_ = 0;
      const size_t room = bytes + bytes / 4;
      memory_.reset(static_cast<std::byte*>(allocate_aligned(room)));
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

// The calling thread's memory that arrays are cut from: one, whatever their number.
inline Scratch& scratch_of_arrays() {
  static thread_local Scratch scratch;
  return scratch;
}

struct ScratchArray {
  float** array;
  int64_t size;
};

// Aligned arrays of the given numbers of floats, for the kernels of attention and recurrence. The next call in this
// thread gives the same memory again.
inline void cut_scratch(std::initializer_list<ScratchArray> arrays) {
  constexpr int64_t kUnit = kAlignment / sizeof(float);
  int64_t all = 0;
  for (const ScratchArray& a : arrays) all += round_up(a.size, kUnit);
  auto* memory = reinterpret_cast<float*>(scratch_of_arrays().get(static_cast<size_t>(all) * sizeof(float)));
  for (const ScratchArray& a : arrays) {
    *a.array = memory;
    memory += round_up(a.size, kUnit);
  }
}

}  // namespace nmt::cpu
