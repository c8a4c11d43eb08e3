#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "backend/cuda/device.h"
#include "backend/cuda/emulation/guarded_memory.h"

namespace nmt::cuda::emulation {

// The memory of all devices. Any thread may call.
class Allocations {
 public:
  // Error where the device's memory does not suffice.
  void* allocate(const Device& owner, size_t bytes);
  // Error where that is not the owner's memory, or something was written outside of it.
  void free(const Device& owner, void* memory);

  int64_t used(int device) const;           // bytes, by all owners
  int64_t peak(int device) const;           // the most of them, so far
  int64_t used(const Device& owner) const;  // bytes, by this one

  // Error that names the action where these bytes are not the owner's memory.
  void check(const Device& owner, const char* action, const void* memory, size_t bytes) const;
  // The device whose memory holds what the pointer points to, or ends there; -1: none's.
  int device_of(const void* memory) const;
  // Error that names the kernel where something was written outside of what is allocated.
  void check_guards(const char* kernel);

 private:
  struct Allocation {
    const Device* owner;
    std::unique_ptr<GuardedMemory> memory;
  };

  // The last one that begins there or before; null: none. For those who hold the mutex.
  const Allocation* last_before(const void* memory) const;

  mutable std::mutex mutex_;
  std::map<const std::byte*, Allocation> at_;
  std::map<int, int64_t> peaks_;  // by device
};

Allocations& allocations();

}  // namespace nmt::cuda::emulation
