#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace nmt::cuda {

// Error that names the current device and what was going on, for what CUDA's runtime reports.
inline void check_cuda(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return;
  int device = 0;
  cudaGetDevice(&device);
  fail("CUDA: device {}: {}: {} ({})", device, doing, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace nmt::cuda
