#pragma once

#include <type_traits>

#include "backend/cuda/launch.cuh"

#ifdef NMT_CUDA_EMULATION
#include "backend/cuda/emulation/mma.h"
#endif

// Products of small matrices by a whole warp (tensor cores), and the copies that feed them. All lanes of a warp call
// together. Elements of 16 bits lie in pairs in words of 32 bits, the one of lower index in the lower half. With g =
// lane / 4 and t = lane % 4 a lane holds
//   of a [16, 16]:  a[0]: row g, columns 2t and 2t + 1;  a[1]: row g + 8;  a[2], a[3]: the same, 8 columns to the right
//   of b [16, 8]:   b[0]: column g, rows 2t and 2t + 1;  b[1]: the same, 8 rows below
//   of d [16, 8]:   d[0], d[1]: row g, columns 2t and 2t + 1;  d[2], d[3]: row g + 8
// (mma.m16n8k16 of the PTX manual).
namespace nmt::cuda {

// d += a b, of Bf16 or F16.
template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  static_assert(std::is_same_v<T, Bf16> || std::is_same_v<T, F16>);
#ifdef NMT_CUDA_EMULATION
  constexpr auto real = std::is_same_v<T, Bf16> ? emulation::from_bf16 : emulation::from_f16;
  emulation::mma_16x8x16<real>("mma_16x8x16", d, a, b);
#else
  if constexpr (std::is_same_v<T, Bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Four matrices [8, 8] of 16-bit elements from shared memory: lane 8 i + r gives the address of row r of matrix i, 16
// bytes, aligned to 16. m[i]: row g, columns 2t and 2t + 1 of matrix i.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&m)[4], const void* row) {
#ifdef NMT_CUDA_EMULATION
  emulation::ldmatrix_x4<false>("ldmatrix_x4", m, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}

// The same of the transposed matrices: m[i]: column g, rows 2t and 2t + 1 of matrix i.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&m)[4], const void* row) {
#ifdef NMT_CUDA_EMULATION
  emulation::ldmatrix_x4<true>("ldmatrix_x4_trans", m, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}

// Begins to copy 16 bytes, both ends aligned to 16, from device memory to shared memory. The thread that began it sees
// them after cp_async_wait, the block's other threads after a barrier that follows.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
#ifdef NMT_CUDA_EMULATION
  emulation::cp_async_16(shared, global);
#else
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(__cvta_generic_to_global(global))
      : "memory");
#endif
}

// Makes the copies begun since the last call a group.
__device__ __forceinline__ void cp_async_commit() {
#ifdef NMT_CUDA_EMULATION
  emulation::end_copy_group();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for this thread's groups but the newest N.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
#ifdef NMT_CUDA_EMULATION
  emulation::finish_copy_groups(N);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

}  // namespace nmt::cuda
