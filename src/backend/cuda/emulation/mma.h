#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/cuda/emulation/floats.h"
#include "backend/cuda/emulation/run.h"

// What backend/cuda/mma.cuh says, by the lane that comes last, for all.
namespace nmt::cuda::emulation {

constexpr unsigned kWholeWarp = 0xffffffff;

inline uint16_t half_of(unsigned pair, int upper) { return static_cast<uint16_t>(pair >> 16 * upper); }

// Error where there are no 16 aligned bytes of shared memory.
inline void check_shared(const char* operation, const void* at) {
  const auto* from = static_cast<const std::byte*>(shared_memory());
  const auto* to = static_cast<const std::byte*>(at);
  if (to < from || to + 16 > from + shared_bytes() || (to - from) % 16 != 0)
    fail_in_thread(operation, "these are no 16 aligned bytes of shared memory");
}

// d += a b. The sum is rounded once; a device rounds more often, in an order of its own.
template <float (*kReal)(uint16_t)>
void mma_16x8x16(const char* operation, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Lane {
    float* d;
    const unsigned *a, *b;
  } here{d, a, b};
  sync_warp(operation, kWholeWarp, &here, [](unsigned, void* const* lanes) {
    double a[16][16], b[16][8], product[16][8]{};
    for (int lane = 0; lane < 32; ++lane) {
      const auto* from = static_cast<const Lane*>(lanes[lane]);
      const int g = lane / 4, t = lane % 4;
      for (int upper = 0; upper < 2; ++upper) {
        for (int i = 0; i < 4; ++i) a[g + i % 2 * 8][2 * t + upper + i / 2 * 8] = kReal(half_of(from->a[i], upper));
        for (int i = 0; i < 2; ++i) b[2 * t + upper + i * 8][g] = kReal(half_of(from->b[i], upper));
      }
    }
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        for (int column = 0; column < 8; ++column) product[row][column] += a[row][k] * b[k][column];
    for (int lane = 0; lane < 32; ++lane) {
      float* d = static_cast<Lane*>(lanes[lane])->d;
      for (int i = 0; i < 4; ++i) d[i] = static_cast<float>(d[i] + product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
    }
  });
}

template <bool kTransposed>
void ldmatrix_x4(const char* operation, unsigned (&m)[4], const void* row) {
  check_shared(operation, row);
  struct Lane {
    unsigned* m;
    const void* row;
  } here{m, row};
  sync_warp(operation, kWholeWarp, &here, [](unsigned, void* const* lanes) {
    for (int i = 0; i < 4; ++i) {
      uint16_t matrix[8][8];
      for (int r = 0; r < 8; ++r) std::memcpy(matrix[r], static_cast<const Lane*>(lanes[8 * i + r])->row, 16);
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        const unsigned lower = kTransposed ? matrix[2 * t][g] : matrix[g][2 * t];
        const unsigned upper = kTransposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
        static_cast<Lane*>(lanes[lane])->m[i] = lower | upper << 16;
      }
    }
  });
}

inline void cp_async_16(void* shared, const void* global) {
  check_shared("cp_async_16", shared);
  if (reinterpret_cast<uintptr_t>(global) % 16 != 0)
    fail_in_thread("cp_async_16", "the source is not aligned to 16 bytes");
  begin_copy(shared, global);
}

}  // namespace nmt::cuda::emulation
