#pragma once

#include <atomic>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "backend/cuda/emulation/floats.h"
#include "backend/cuda/emulation/guarded_memory.h"
#include "backend/cuda/emulation/run.h"

// CUDA's words for kernels, as C++. What is not here does not compile: `__shared__` (shared memory comes from
// shared_memory(), which knows its bounds) and sums of floats by atomicAdd (their order is left to time).
// NOLINTBEGIN: the names are CUDA's
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (::nmt::cuda::emulation::place->thread)
#define blockIdx (::nmt::cuda::emulation::place->block)
#define blockDim (::nmt::cuda::emulation::place->threads)
#define gridDim (::nmt::cuda::emulation::place->blocks)

// ---- threads that wait for each other -----------------------------------------------------------
inline void __syncthreads() { ::nmt::cuda::emulation::sync_block(); }
inline void __syncwarp(unsigned mask = 0xffffffff) {
  ::nmt::cuda::emulation::sync_warp("__syncwarp", mask, nullptr, [](unsigned, void* const*) {});
}

namespace nmt::cuda {

// The C library's is a call that costs more than a kernel's loop around it. The product is exact in float64.
inline float fmaf(float a, float b, float c) { return static_cast<float>(static_cast<double>(a) * b + c); }

}  // namespace nmt::cuda

namespace nmt::cuda::emulation {

inline int lane() { return static_cast<int>(place->thread.x % 32); }

// The value of the lane `source`; NaN, or an absurd number, where that is not in the mask.
template <class T>
T exchange(const char* operation, unsigned mask, T value, int source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  struct Lane {
    T value;
    int source;
    T result;
  } here{value, source, {}};
  sync_warp(operation, mask, &here, [](unsigned mask, void* const* lanes) {
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      auto* lane = static_cast<Lane*>(lanes[std::countr_zero(rest)]);
      if (mask >> lane->source & 1)
        lane->result = static_cast<const Lane*>(lanes[lane->source])->value;
      else
        fill_unset(&lane->result, sizeof(T));
    }
  });
  return here.result;
}

// Shuffles are within groups of `width` lanes, a power of two; a source behind the group is the lane itself. Of `bits`
// the lowest five count.
template <class T>
T shuffle(unsigned mask, T value, int source, int width) {
  return exchange("__shfl_sync", mask, value, (lane() & -width) | (source & (width - 1)));
}
template <class T>
T shuffle_xor(unsigned mask, T value, int bits, int width) {
  const int source = lane() ^ (bits & 31);
  return exchange("__shfl_xor_sync", mask, value, source > (lane() | (width - 1)) ? lane() : source);
}

// Which lanes of the mask say so.
inline unsigned ballot(unsigned mask, bool says) {
  struct Lane {
    bool says;
    unsigned result;
  } here{says, 0};
  sync_warp("__ballot_sync", mask, &here, [](unsigned mask, void* const* lanes) {
    unsigned all = 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      all |= static_cast<unsigned>(static_cast<const Lane*>(lanes[i])->says) << i;
    }
    for (unsigned rest = mask; rest != 0; rest &= rest - 1)
      static_cast<Lane*>(lanes[std::countr_zero(rest)])->result = all;
  });
  return here.result;
}

}  // namespace nmt::cuda::emulation

// The types are those that CUDA exchanges.
#define NMT_SHUFFLES(T)                                                        \
  inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {   \
    return ::nmt::cuda::emulation::shuffle(mask, value, source, width);        \
  }                                                                            \
  inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) { \
    return ::nmt::cuda::emulation::shuffle_xor(mask, value, bits, width);      \
  }
NMT_SHUFFLES(int)
NMT_SHUFFLES(unsigned)
NMT_SHUFFLES(long)
NMT_SHUFFLES(unsigned long)
NMT_SHUFFLES(long long)
NMT_SHUFFLES(unsigned long long)
NMT_SHUFFLES(float)
NMT_SHUFFLES(double)
#undef NMT_SHUFFLES

inline unsigned __ballot_sync(unsigned mask, int says) { return ::nmt::cuda::emulation::ballot(mask, says != 0); }

// ---- atomics: the old value; of integers alone, where the order does not matter -----------------
#define NMT_ATOMIC_ADD(T) \
  inline T atomicAdd(T* at, T x) { return std::atomic_ref<T>(*at).fetch_add(x); }
NMT_ATOMIC_ADD(int)
NMT_ATOMIC_ADD(unsigned)
NMT_ATOMIC_ADD(unsigned long long)
#undef NMT_ATOMIC_ADD
void atomicAdd(float*, float) = delete;
void atomicAdd(double*, double) = delete;

// ---- numbers ------------------------------------------------------------------------------------
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }  // from 1
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

// glibc's headers declare a function of this name, which is not there.
#define __expf(x) expf(x)

#define NMT_MIN_MAX(T)                                \
  constexpr T min(T x, T y) { return y < x ? y : x; } \
  constexpr T max(T x, T y) { return x < y ? y : x; }
NMT_MIN_MAX(int)
NMT_MIN_MAX(unsigned)
NMT_MIN_MAX(long)
NMT_MIN_MAX(unsigned long)
NMT_MIN_MAX(long long)
NMT_MIN_MAX(unsigned long long)
#undef NMT_MIN_MAX
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
// NOLINTEND
