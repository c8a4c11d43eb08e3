#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensor/message.h"
#include "tensor/recording.h"

struct CUstream_st;

// Devices, their memory and the order of their work, without CUDA's own headers: what is above this layer is plain C++.
// There are two implementations: backend/cuda/device on CUDA's runtime, and backend/cuda/emulation, where a device is
// this process.
namespace nmt::cuda {

using Stream = CUstream_st*;  // cudaStream_t

struct DeviceInfo {
  std::string name;
  int64_t memory = 0;        // bytes
  int major = 0, minor = 0;  // compute capability
};

// All devices, in the driver's order; none where there is no driver or one that is too old, and then `why`, where it is
// not null, says so in a few words.
std::vector<DeviceInfo> devices(std::string* why = nullptr);

// The index-th of them; UnsuitableDevice (unsuitable_device.h) where there is none.
DeviceInfo device_info(int index);

// Throws Error that names the kernel.
[[noreturn]] void refuse_launch(const char* kernel, const char* why);

// One device, and a stream on it: what is begun on a device is done in that order. Failures of the device are an Error
// that names what was going on.
class Device {
 public:
  // The index-th of devices(). UnsuitableDevice; UserError where it is in use by somebody who does not share it.
  explicit Device(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Each thread of the host has one device that its kernels and calls of libraries go to: this one from now on. The
  // methods below do it by themselves.
  void make_current();

  int index() const { return index_; }
  Stream stream() const { return stream_; }
  const DeviceInfo& info() const { return info_; }

  // Device memory, 256-byte aligned; OutOfMemory, with how much, where it does not suffice. Freed in stream order.
  void* allocate(size_t bytes);
  void free(void* memory);
  // What was freed stays with the process, but after this: then all of CUDA can take it.
  void give_back();
  int64_t used() const;  // bytes that this program has taken of the device's memory
  int64_t peak() const;  // the most that it had at a time

  // Room for uploads of so many bytes: to take it later may wait for all devices.
  void prepare_uploads(size_t bytes);
  // In stream order. Of `from` a copy is kept till then and the host does not wait, but for more than a few megabytes.
  void upload(void* to, const void* from, size_t bytes);
  void copy(void* to, const void* from, size_t bytes);  // both on the device
  void zero(void* to, size_t bytes);
  // Waits for all that was begun before; then `to` is filled.
  void download(void* to, const void* from, size_t bytes);
  void synchronize();
  std::unique_ptr<Message> message(size_t room);  // for so many bytes, and more
  // What `work` begins on this device is recorded, and not done. It takes and frees no memory of the device, and brings
  // nothing to it or from it.
  std::unique_ptr<Recording> record(const std::function<void()>& work);

 private:
  int index_;
  Stream stream_ = nullptr;
  DeviceInfo info_;
  void* staging_ = nullptr;  // of the implementation
};

// Memory on a device, owned.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, size_t bytes) : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->free(data_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace nmt::cuda
