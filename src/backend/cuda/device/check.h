#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace nmt::cuda {

// Error that names the device and what was going on, for what CUDA's runtime reports: OutOfMemory where it is that.
inline void check_cuda(cudaError_t error, int device, const char* doing) {
  if (error == cudaSuccess) return;
  const auto what =
      fmt::format("CUDA: device {}: {}: {} ({})", device, doing, cudaGetErrorString(error), cudaGetErrorName(error));
  if (error != cudaErrorMemoryAllocation) throw Error(what);
  cudaGetLastError();  // work can go on
  throw OutOfMemory(what);
}

// The same of the current device.
inline void check_cuda(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  int device = 0;
  cudaGetDevice(&device);
  check_cuda(error, device, doing);
}

// That cudaMallocAsync takes the device's memory from.
inline cudaMemPool_t memory_pool(int device) {
  cudaMemPool_t pool;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), device, "asking for the memory pool");
  return pool;
}

}  // namespace nmt::cuda
