#include "backend/cuda/emulation/guarded_memory.h"

#include <algorithm>
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

// Words of 0xffca: NaN too, but not what memory holds at first. One byte more, for zones that begin at odd addresses.
constexpr auto kGuard = [] {
  std::array<unsigned char, kZone + 1> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 2 == 0 ? 0xca : 0xff;
  return bytes;
}();

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
#ifdef __SANITIZE_ADDRESS__
  ASAN_POISON_MEMORY_REGION(data_ - kZone, kZone);
  ASAN_POISON_MEMORY_REGION(data_ + bytes_, kZone);
#else
  std::memcpy(data_ - kZone, kGuard.data(), kZone);
  std::memcpy(data_ + bytes_, kGuard.data() + bytes_ % 2, kZone);
#endif
}

GuardedMemory::~GuardedMemory() {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(data_ - kZone, kZone + bytes_ + kZone);
#endif
  ::operator delete(data_ - kZone, kAlignment);
}

bool GuardedMemory::intact() const {
#ifdef __SANITIZE_ADDRESS__
  return true;
#else
  return std::memcmp(data_ - kZone, kGuard.data(), kZone) == 0 &&
         std::memcmp(data_ + bytes_, kGuard.data() + bytes_ % 2, kZone) == 0;
#endif
}

}  // namespace nmt::cuda::emulation
