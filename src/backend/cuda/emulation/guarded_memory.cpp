#include "backend/cuda/emulation/guarded_memory.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace nmt::cuda::emulation {
namespace {

constexpr size_t kZone = 1024;
constexpr std::align_val_t kAlignment{256};

#ifndef __SANITIZE_ADDRESS__
// Words of 0xffca: NaN too, but not what memory holds at first. One byte more, for zones that begin at odd addresses.
constexpr auto kGuard = [] {
  std::array<unsigned char, kZone + 1> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 2 == 0 ? 0xca : 0xff;
  return bytes;
}();
#endif

}  // namespace

void fill_unset(void* memory, size_t bytes) {
  constexpr uint32_t kUnset = 0x7fffffff;
  auto* to = static_cast<std::byte*>(memory);
  size_t i = 0;
  for (; i + sizeof kUnset <= bytes; i += sizeof kUnset) std::memcpy(to + i, &kUnset, sizeof kUnset);
  std::memcpy(to + i, &kUnset, bytes - i);
}

GuardedMemory::GuardedMemory(size_t bytes)
    : data_(static_cast<std::byte*>(::operator new(kZone + bytes + kZone, kAlignment)) + kZone), bytes_(bytes) {
  fill_unset(data_, bytes_);
  set_guards();
}

#ifdef __SANITIZE_ADDRESS__

GuardedMemory::~GuardedMemory() {
  ASAN_UNPOISON_MEMORY_REGION(data_ - kZone, kZone + bytes_ + kZone);
  ::operator delete(data_ - kZone, kAlignment);
}

void GuardedMemory::set_guards() {
  ASAN_POISON_MEMORY_REGION(data_ - kZone, kZone);
  ASAN_POISON_MEMORY_REGION(data_ + bytes_, kZone);
}

bool GuardedMemory::check_guards() { return true; }

#else

GuardedMemory::~GuardedMemory() { ::operator delete(data_ - kZone, kAlignment); }

void GuardedMemory::set_guards() {
  std::memcpy(data_ - kZone, kGuard.data(), kZone);
  std::memcpy(data_ + bytes_, kGuard.data() + bytes_ % 2, kZone);
}

bool GuardedMemory::check_guards() {
  const bool intact = std::memcmp(data_ - kZone, kGuard.data(), kZone) == 0 &&
                      std::memcmp(data_ + bytes_, kGuard.data() + bytes_ % 2, kZone) == 0;
  if (!intact) set_guards();
  return intact;
}

#endif

}  // namespace nmt::cuda::emulation
