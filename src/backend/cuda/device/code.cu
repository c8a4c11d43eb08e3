#include <cuda_runtime.h>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/code.h"

namespace nmt::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

bool has_code() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, nothing);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
      error == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();  // it is dealt with
    return false;
  }
  check_cuda(error, "looking for its code");
  return true;
}

}  // namespace nmt::cuda
