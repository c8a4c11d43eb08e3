#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device.h"
#include "tensor/dtype.h"

#ifdef NMT_CUDA_EMULATION
#include "backend/cuda/emulation/emulation.h"
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backend/cuda/device/check.h"
#endif

// What every kernel is written with. A kernel is launched by launch(); its shared memory is all dynamic and comes from
// shared_memory(), so that the emulation knows its bounds.
namespace nmt::cuda {

// A launch: blocks in up to three axes, threads of a block, bytes of shared memory. A kernel of more than 256 threads
// has __launch_bounds__: any other may take so many registers that there are none for more.
struct Grid {
  int64_t x = 1, y = 1, z = 1;
  int threads = 256;
  size_t shared = 0;
};

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffff;

// kernel<<<grid>>>(arguments...) on the stream; a grid without blocks launches nothing.
template <class... Parameters, class... Arguments>
void launch(const char* name, [[maybe_unused]] Stream stream, const Grid& grid, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX) refuse_launch(name, "too many blocks");
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
#ifdef NMT_CUDA_EMULATION
  emulation::check_current(name, stream);
  (emulation::check_argument(name, stream, arguments), ...);
  emulation::begin([=] {
    emulation::run(name, blocks, grid.threads, grid.shared, [&] { kernel(static_cast<Parameters>(arguments)...); });
  });
#else
  if (grid.shared > 48 << 10) {
    // As much as there is, for all launches of this kernel: those that a graph has recorded keep to it, too.
    int device = 0, most = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (grid.shared > static_cast<size_t>(most))
      refuse_launch(name, "it needs more shared memory than a block of this device can have");
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  kernel<<<blocks, grid.threads, grid.shared, stream>>>(static_cast<Parameters>(arguments)...);
  check_cuda(cudaGetLastError(), name);  // memory may not suffice for its code, which is loaded at the first launch
#endif
}

// The block's shared memory, 128-byte aligned.
template <class T = std::byte>
__device__ __forceinline__ T* shared_memory() {
#ifdef NMT_CUDA_EMULATION
  return static_cast<T*>(emulation::shared_memory());
#else
  extern __shared__ __align__(128) unsigned char nmt_shared_memory[];
  return reinterpret_cast<T*>(nmt_shared_memory);
#endif
}

// The number of this thread among all of the x axis.
__device__ __forceinline__ int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// ---- activations --------------------------------------------------------------------------------
struct Bf16 {
  uint16_t bits;
};
struct F16 {  // IEEE 754 binary16
  uint16_t bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(Bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }

__device__ __forceinline__ float to_float(F16 x) {
#ifdef NMT_CUDA_EMULATION
  return emulation::from_f16(x.bits);
#else
  return __half2float(__half(__half_raw{x.bits}));
#endif
}

template <class T>
__device__ __forceinline__ T rounded(float x);
template <>
__device__ __forceinline__ float rounded<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ Bf16 rounded<Bf16>(float x) {  // to nearest even
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <>
__device__ __forceinline__ F16 rounded<F16>(float x) {  // to nearest even; too large ones are infinite
#ifdef NMT_CUDA_EMULATION
  return {emulation::to_f16(x)};
#else
  return {static_cast<__half_raw>(__float2half_rn(x)).x};
#endif
}

// Calls body(T()) with the type of activations that t names.
template <class Body>
void with_type(DType t, Body body) {
  if (t == DType::kBF16)
    body(Bf16());
  else if (t == DType::kF16)
    body(F16());
  else
    body(float());
}

// ---- reductions: the order of additions is fixed ------------------------------------------------
__device__ __forceinline__ float warp_sum(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

// Over the block, for every thread; all threads call it, their number a multiple of 32. room: 32 floats of shared
// memory, free again afterwards.
__device__ __forceinline__ float block_sum(float x, float* room) {
  x = warp_sum(x);
  const unsigned lane = threadIdx.x % kWarp;
  if (lane == 0) room[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = warp_sum(lane < blockDim.x / kWarp ? room[lane] : 0);
  __syncthreads();
  return x;
}

}  // namespace nmt::cuda
