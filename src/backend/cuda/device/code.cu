#include <cuda_runtime.h>

#include "backend/cuda/device/code.h"

namespace nmt::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

bool has_code() {
  cudaFuncAttributes attributes;
  const bool found = cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess;
  cudaGetLastError();  // it is dealt with
  return found;
}

}  // namespace nmt::cuda
