#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device.h"
#include "tensor/dtype.h"

namespace nmt::cuda {

// One of several devices that compute together: NCCL's calls, or in the emulation this process's. All of them make the
// same calls in the same order, each from a thread of its own; what is begun goes on in the order of the device's
// stream. Sums are the same bits on all devices and in each run. (All virtual, so that programs without CUDA need no
// definition.)
class Communicator {
 public:
  // One for each device, in their order. UnsuitableDevice where NCCL is not to be found, Error where it fails.
  static std::vector<std::unique_ptr<Communicator>> connect(std::span<Device* const> devices);

  virtual ~Communicator() = default;

  // data: as many parts of `count` floats as there are devices. The device's own part (by its rank) becomes the sum of
  // all devices' parts; the others' parts are left with any values. sent: kF32, or kBF16, which halves what goes from
  // device to device: parts and sums are rounded to it.
  virtual void reduce_scatter(float* data, int64_t count, DType sent);
  // Takes the memory that it needs, if it has not.
  virtual void reserve(int64_t count, DType sent);
  // The other way: each device gives its own part to all.
  virtual void all_gather(float* data, int64_t count) = 0;
  // data[i] becomes the sum of all devices' data[i].
  virtual void all_reduce(double* data, int64_t count) = 0;

  // By any thread: one of the devices has failed and will not come. None waits for others any longer, and the calls of
  // all are Errors. The destructor of the first that ends does it, too.
  virtual void abort() = 0;

 protected:
  Communicator(Device& device, size_t rank, size_t devices)
      : device_(device), rank_(static_cast<int64_t>(rank)), devices_(static_cast<int64_t>(devices)) {}

  // reduce_scatter() of elements of dtype t, added up in it.
  virtual void add_parts(DType t, void* data, int64_t count) = 0;

  Device& device_;
  const int64_t rank_, devices_;

 private:
  DeviceMemory rounded_;
};

}  // namespace nmt::cuda
