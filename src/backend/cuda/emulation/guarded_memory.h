#pragma once

#include <cstddef>

namespace nmt::cuda::emulation {

// Sets memory to words of 0x7fffffff: NaN in float32, bf16 and float16, as an integer no index of anything.
void fill_unset(void* memory, size_t bytes);

// Memory between two guard zones, 256-byte aligned, unset at first. The address sanitizer reports what touches a zone;
// without it check_guards() tells that something was written there, and what is read there is NaN.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Whether the guards are as they were since the last time; then they are again.
  bool check_guards();

 private:
  void set_guards();

  std::byte* data_;
  size_t bytes_;
};

}  // namespace nmt::cuda::emulation
