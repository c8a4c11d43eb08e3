#include "backend/cuda/emulation/allocations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace nmt::cuda::emulation {
namespace {

constexpr int64_t kMB = 1 << 20;

}  // namespace

void* Allocations::allocate(const Device& owner, size_t bytes) {
  const int64_t free = std::max<int64_t>(0, owner.info().memory - used(owner.index()));
  if (bytes > static_cast<size_t>(free))
    throw OutOfMemory(fmt::format("out of memory on device {}: {} MB are needed, {} MB are free", owner.index(),
                                  (bytes + kMB - 1) / kMB, free / kMB));
  auto memory = std::make_unique<GuardedMemory>(bytes);
  std::byte* data = memory->data();
  {
    const std::lock_guard lock(mutex_);
    at_.emplace(data, Allocation{&owner, std::move(memory)});
  }
  const int64_t now = used(owner.index());
  const std::lock_guard lock(mutex_);
  peaks_[owner.index()] = std::max(peaks_[owner.index()], now);
  return data;
}

void Allocations::free(const Device& owner, void* memory) {
  const std::lock_guard lock(mutex_);
  const auto it = at_.find(static_cast<std::byte*>(memory));
  if (it == at_.end() || it->second.owner != &owner) fail("what is freed is not allocated on the device");
  const Allocation freed = std::move(it->second);
  at_.erase(it);
  if (!freed.memory->check_guards())
    fail("something was written outside of {} bytes of device memory", freed.memory->bytes());
}

int64_t Allocations::used(int device) const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [data, a] : at_) sum += a.owner->index() == device ? static_cast<int64_t>(a.memory->bytes()) : 0;
  return sum;
}

int64_t Allocations::peak(int device) const {
  const std::lock_guard lock(mutex_);
  const auto it = peaks_.find(device);
  return it == peaks_.end() ? 0 : it->second;
}

int64_t Allocations::used(const Device& owner) const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [data, a] : at_) sum += a.owner == &owner ? static_cast<int64_t>(a.memory->bytes()) : 0;
  return sum;
}

const Allocations::Allocation* Allocations::last_before(const void* memory) const {
  const auto after = at_.upper_bound(static_cast<const std::byte*>(memory));
  return after == at_.begin() ? nullptr : &std::prev(after)->second;
}

void Allocations::check(const Device& owner, const char* action, const void* memory, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Allocation* a = last_before(memory);
  if (a != nullptr && a->owner == &owner &&
      static_cast<const std::byte*>(memory) + bytes <= a->memory->data() + a->memory->bytes())
    return;
  fail("{}: {} bytes that are not allocated on the device", action, bytes);
}

int Allocations::device_of(const void* memory) const {
  const std::lock_guard lock(mutex_);
  const Allocation* a = last_before(memory);
  return a != nullptr && memory <= a->memory->data() + a->memory->bytes() ? a->owner->index() : -1;
}

void Allocations::check_guards(const char* kernel) {
  const std::lock_guard lock(mutex_);
  for (const auto& [data, a] : at_)
    if (!a.memory->check_guards())
      fail("kernel {}: something was written outside of {} bytes of device memory", kernel, a.memory->bytes());
}

Allocations& allocations() {
  static Allocations& all = *new Allocations;  // never ended: devices may end with the program
  return all;
}

}  // namespace nmt::cuda::emulation
