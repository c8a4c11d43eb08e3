#pragma once

#include <type_traits>

#include "backend/cuda/launch.cuh"
#include "base/math.h"

// Elements that lie side by side, read and written 16 bytes at a time.
namespace nmt::cuda {

// As many as share a block of Philox: 16 bytes of bf16, twice 16 of float32.
constexpr int kVector = 8;

template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Vector {
  T x[N];
};

template <int N, class T>
__device__ __forceinline__ void load(const T* p, float (&x)[N]) {
  const auto v = *reinterpret_cast<const Vector<T, N>*>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = to_float(v.x[i]);
}

// Two numbers rounded to Bf16 or F16 by one instruction, the first in the low half.
template <class T>
__device__ __forceinline__ unsigned rounded_pair(float a, float b) {
#ifdef __CUDA_ARCH__
  unsigned pair;
  if constexpr (std::is_same_v<T, Bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
  return pair;
#else
  return rounded<T>(a).bits | static_cast<unsigned>(rounded<T>(b).bits) << 16;
#endif
}

template <int N, class T>
__device__ __forceinline__ void store(const float (&x)[N], T* p) {
  Vector<T, N> v;
  if constexpr (!std::is_same_v<T, float> && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const unsigned pair = rounded_pair<T>(x[i], x[i + 1]);
      v.x[i].bits = static_cast<uint16_t>(pair);
      v.x[i + 1].bits = static_cast<uint16_t>(pair >> 16);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v.x[i] = rounded<T>(x[i]);
  }
  *reinterpret_cast<Vector<T, N>*>(p) = v;
}

// Has what lies there come nearer, to the second cache: it will be loaded soon.
template <class T>
__device__ __forceinline__ void prefetch([[maybe_unused]] const T* p) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
#endif
}

// The first `count` of N, where an array may end within them; the others are 0.
template <int N, class T>
__device__ __forceinline__ void load(const T* p, int64_t count, float (&x)[N]) {
  if (count >= N) return load(p, x);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = i < count ? to_float(p[i]) : 0;
}

template <int N, class T>
__device__ __forceinline__ void store(const float (&x)[N], int64_t count, T* p) {
  if (count >= N) return store(x, p);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) p[i] = rounded<T>(x[i]);
}

// Whether all these arrays (null ones too) begin at a multiple of 16 bytes, and so, if `width` is a multiple of
// kVector, do their rows.
template <class... Pointers>
bool aligned(Pointers... p) {
  return ((reinterpret_cast<uintptr_t>(p) % 16 == 0) && ...);
}

// Calls body(N) with the number of elements to take at a time: a constant, kSize or 1.
template <int kSize = kVector, class Body>
void with_vectors(bool aligned, Body body) {
  if (aligned)
    body(std::integral_constant<int, kSize>());
  else
    body(std::integral_constant<int, 1>());
}

// A thread for every `size` of n elements.
inline Grid flat_grid(int64_t n, int size) {
  const Grid grid;
  return {.x = divide_up(n, static_cast<int64_t>(size) * grid.threads), .threads = grid.threads};
}

}  // namespace nmt::cuda
