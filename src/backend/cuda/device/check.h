#pragma once

#include <cuda_runtime.h>

namespace nmt::cuda {

// Throws Error that names the device and what was going on, for what CUDA's runtime reports: OutOfMemory where it is
// that.
[[noreturn]] void report(cudaError_t error, int device, const char* doing);

inline void check_cuda(cudaError_t error, int device, const char* doing) {
  if (error != cudaSuccess) report(error, device, doing);
}

// The same of the current device.
inline void check_cuda(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  int device = 0;
  cudaGetDevice(&device);
  report(error, device, doing);
}

// That cudaMallocAsync takes the device's memory from.
inline cudaMemPool_t memory_pool(int device) {
  cudaMemPool_t pool;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), device, "asking for the memory pool");
  return pool;
}

}  // namespace nmt::cuda
