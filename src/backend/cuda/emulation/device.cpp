#include "backend/cuda/device.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "backend/cuda/emulation/guarded_memory.h"
#include "base/error.h"
#include "base/log.h"

// Emulated devices: memory of this process, and work that is done at once. Environment variables: NMT_EMULATED_DEVICES,
// how many there are (0 to 64, 1 unless given), and NMT_EMULATED_MEMORY, megabytes of each (2048 unless given).
namespace nmt::cuda {
namespace {

using emulation::GuardedMemory;

constexpr int kMaxDevices = 64;

int64_t environment(const char* name, int64_t otherwise, int64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  require(error == std::errc() && *end == 0 && value >= 0 && value <= most,
          "environment variable {}: '{}' is no number from 0 to {}", name, text, most);
  return value;
}

// What is allocated on all devices.
struct Allocation {
  const Device* owner;
  int device;
  std::unique_ptr<GuardedMemory> memory;
};

struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, Allocation> at;  // by address
  int64_t used[kMaxDevices] = {};
};

Allocations& allocations() {
  static Allocations allocations;
  return allocations;
}

void check_inside(const Device& device, const char* what, const void* memory, size_t bytes) {
  if (bytes == 0) return;
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  const auto* begin = static_cast<const std::byte*>(memory);
  auto it = all.at.upper_bound(begin);
  if (it != all.at.begin()) {
    --it;
    if (it->second.owner == &device && begin + bytes <= it->first + it->second.memory->bytes()) return;
  }
  fail("{} of {} bytes outside of what is allocated on the device", what, bytes);
}

}  // namespace

std::vector<DeviceInfo> devices(std::string* why) {
  const int64_t count = environment("NMT_EMULATED_DEVICES", 1, kMaxDevices);
  const int64_t memory = environment("NMT_EMULATED_MEMORY", 2048, 1 << 20) << 20;
  if (count == 0 && why != nullptr) *why = "NMT_EMULATED_DEVICES is 0";
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  std::vector<DeviceInfo> found;
  for (int64_t i = 0; i < count; ++i)
    found.push_back({fmt::format("emulated device {}", i), memory, memory - all.used[i], 9, 0});
  return found;
}

Device::Device(int index) : index_(index) {
  const std::vector<DeviceInfo> all = devices();
  require(index >= 0 && static_cast<size_t>(index) < all.size(),
          "there is no CUDA device {}, the number of devices is {}", index, all.size());
  info_ = all[static_cast<size_t>(index)];
}

Device::~Device() {
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  for (const auto& [begin, allocation] : all.at) {
    if (allocation.owner != this) continue;
    log::warn("emulated device {}: {} bytes are never freed", index_, allocation.memory->bytes());
    std::abort();
  }
}

void* Device::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  const int64_t free = info_.memory - all.used[index_];
  constexpr int64_t kMB = 1 << 20;
  if (bytes > static_cast<size_t>(free))
    fail("out of memory on the device: {} MB are needed, {} MB are free", (bytes + kMB - 1) / kMB, free / kMB);
  auto memory = std::make_unique<GuardedMemory>(bytes);
  std::byte* begin = memory->data();
  all.at.emplace(begin, Allocation{this, index_, std::move(memory)});
  all.used[index_] += static_cast<int64_t>(bytes);
  return begin;
}

void Device::free(void* memory) {
  if (memory == nullptr) return;
  Allocations& all = allocations();
  const std::lock_guard lock(all.mutex);
  const auto it = all.at.find(static_cast<const std::byte*>(memory));
  if (it == all.at.end() || it->second.owner != this) fail("free of what is not allocated on the device");
  const size_t bytes = it->second.memory->bytes();
  const bool intact = it->second.memory->intact();
  all.used[index_] -= static_cast<int64_t>(bytes);
  all.at.erase(it);
  if (!intact) fail("something was written before or behind {} bytes of device memory", bytes);
}

void Device::upload(void* to, const void* from, size_t bytes) {
  check_inside(*this, "upload", to, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Device::copy(void* to, const void* from, size_t bytes) {
  check_inside(*this, "copy", from, bytes);
  check_inside(*this, "copy", to, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Device::zero(void* to, size_t bytes) {
  check_inside(*this, "zero", to, bytes);
  if (bytes > 0) std::memset(to, 0, bytes);
}

void Device::download(void* to, const void* from, size_t bytes) {
  check_inside(*this, "download", from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void Device::synchronize() {}

}  // namespace nmt::cuda
