#include "backend/cuda/device.h"

#include <cstdlib>
#include <cstring>

#include "backend/cuda/emulation/allocations.h"
#include "backend/cuda/emulation/environment.h"
#include "backend/cuda/emulation/run.h"
#include "base/error.h"
#include "base/log.h"

// Emulated devices: memory of this process, and work that is done at once. emulation/run.h names the environment
// variables that say how many there are, and how large.
namespace nmt::cuda {

using emulation::allocations;
using emulation::environment;

namespace {

class RecordedWork : public Recording {
 public:
  RecordedWork(Device& device, std::vector<std::function<void()>> all) : device_(device), all_(std::move(all)) {}
  void begin() override {
    device_.make_current();
    for (const auto& work : all_) work();
  }

 private:
  Device& device_;
  std::vector<std::function<void()>> all_;
};

class EmulatedMessage : public Message {
 public:
  explicit EmulatedMessage(Device& device) : device_(device) {}
  void send(const void* from, size_t bytes) override {
    sent_.resize(bytes);
    device_.download(sent_.data(), from, bytes);
  }
  const void* receive() override { return sent_.data(); }

 private:
  Device& device_;
  std::vector<std::byte> sent_;
};

}  // namespace

std::vector<DeviceInfo> devices(std::string* why) {
  const int64_t count = environment("NMT_EMULATED_DEVICES", 1, 64);
  const int64_t memory = environment("NMT_EMULATED_MEMORY", 2048, 1 << 20) << 20;
  if (count == 0 && why != nullptr) *why = "NMT_EMULATED_DEVICES is 0";
  std::vector<DeviceInfo> found;
  for (int i = 0; i < count; ++i) found.push_back({fmt::format("emulated device {}", i), memory, 9, 0});
  return found;
}

Device::Device(int index) : index_(index), info_(device_info(index)) {
  stream_ = reinterpret_cast<Stream>(this);
  make_current();
}

void Device::make_current() { emulation::set_current(stream_); }

// What was not freed by now is a mistake in the program, and a destructor cannot throw.
Device::~Device() {
  if (const int64_t bytes = allocations().used(*this); bytes > 0) {
    log::warn("emulated device {}: {} bytes are never freed", index_, bytes);
    std::abort();
  }
}

void* Device::allocate(size_t bytes) {
  make_current();
  emulation::check_not_recording("taking memory");
  return bytes == 0 ? nullptr : allocations().allocate(*this, bytes);
}

// Destructors call it, which cannot throw.
void Device::free(void* memory) {
  make_current();
  if (emulation::is_recording()) {
    log::warn("emulated device {}: memory is freed in what is recorded", index_);
    std::abort();
  }
  if (memory != nullptr) allocations().free(*this, memory);
}

void Device::give_back() { synchronize(); }

void Device::prepare_uploads(size_t) {}

int64_t Device::used() const { return allocations().used(index_); }
int64_t Device::peak() const { return allocations().peak(index_); }

void Device::upload(void* to, const void* from, size_t bytes) {
  make_current();
  if (bytes == 0) return;
  emulation::check_not_recording("an upload");
  allocations().check(*this, "upload", to, bytes);
  std::memcpy(to, from, bytes);
}

void Device::copy(void* to, const void* from, size_t bytes) {
  make_current();
  if (bytes == 0) return;
  allocations().check(*this, "copy from", from, bytes);
  allocations().check(*this, "copy to", to, bytes);
  emulation::begin([=] { std::memcpy(to, from, bytes); });
}

void Device::zero(void* to, size_t bytes) {
  make_current();
  if (bytes == 0) return;
  allocations().check(*this, "zero", to, bytes);
  emulation::begin([=] { std::memset(to, 0, bytes); });
}

void Device::download(void* to, const void* from, size_t bytes) {
  make_current();
  if (bytes == 0) return;
  emulation::check_not_recording("a download");
  allocations().check(*this, "download", from, bytes);
  std::memcpy(to, from, bytes);
}

void Device::synchronize() { emulation::check_not_recording("waiting"); }

std::unique_ptr<Recording> Device::record(const std::function<void()>& work) {
  make_current();
  return std::make_unique<RecordedWork>(*this, emulation::record(work));
}

std::unique_ptr<Message> Device::message(size_t) { return std::make_unique<EmulatedMessage>(*this); }

}  // namespace nmt::cuda
