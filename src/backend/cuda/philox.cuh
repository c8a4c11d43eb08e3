#pragma once

#include "backend/cuda/vectors.cuh"
#include "base/philox.h"
#include "tensor/arguments.h"

// The mask of Dropout, computed where it is needed.
namespace nmt::cuda {

// Bit k: element 8 * block + k is kept.
__device__ __forceinline__ unsigned kept_of_block(const Dropout& d, int64_t block) {
  const auto b = static_cast<uint64_t>(block);
  const auto words = Philox4x32::generate({static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), d.site, d.step},
                                          {static_cast<uint32_t>(d.seed), static_cast<uint32_t>(d.seed >> 32)});
  const auto threshold = static_cast<uint32_t>(roundf(d.rate * 65536));
  unsigned kept = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const uint32_t lane = words[k / 2] >> (k % 2 * 16) & 0xffff;
    kept |= (lane >= threshold ? 1u : 0u) << k;
  }
  return kept;
}

__device__ __forceinline__ bool kept(const Dropout& d, int64_t element) {
  return kept_of_block(d, element / 8) >> element % 8 & 1;
}

// x = dropout(x), elements first .. first + N; vectors begin at a multiple of their length.
template <int N>
__device__ __forceinline__ void drop(const Dropout& d, int64_t first, float (&x)[N]) {
  static_assert(N == kVector || N == 1);
  if (d.rate == 0) return;
  const unsigned kept = kept_of_block(d, first / 8) >> first % 8;
  const float scale = 1 / (1 - d.rate);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = kept >> i & 1 ? x[i] * scale : 0;
}

}  // namespace nmt::cuda
