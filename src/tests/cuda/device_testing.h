#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/device.h"
#include "tests/catch.h"
#ifdef NMT_CUDA_EMULATION
#include "backend/cuda/launch.cuh"
#endif

// What the tests of kernels share.
namespace nmt::testing {

// Null where there is no device; then it says that the running test is skipped.
inline std::unique_ptr<cuda::Device> test_device() {
  if (!cuda::devices().empty()) return std::make_unique<cuda::Device>(0);
  WARN("SKIPPED: '" << Catch::getResultCapture().getCurrentTestName() << "': there is no CUDA device");
  return nullptr;
}

template <class T>
cuda::DeviceMemory upload(cuda::Device& device, const std::vector<T>& x) {
  cuda::DeviceMemory memory(device, x.size() * sizeof(T));
  device.upload(memory.data(), x.data(), memory.bytes());
  return memory;
}

template <class T>
std::vector<T> download(cuda::Device& device, const cuda::DeviceMemory& memory) {
  std::vector<T> x(memory.bytes() / sizeof(T));
  device.download(x.data(), memory.data(), memory.bytes());
  return x;
}

// Calls body() several times: threads of a device have another order each time, an emulated one's are given some.
template <class Body>
void in_thread_orders(Body body) {
  body();
#ifdef NMT_CUDA_EMULATION
  for (const uint64_t seed : {1, 2}) {
    INFO("thread order " << seed);
    cuda::emulation::set_thread_order(seed);
    body();
  }
  cuda::emulation::set_thread_order(0);
#else
  body();
#endif
}

}  // namespace nmt::testing
