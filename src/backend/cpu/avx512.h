#pragma once

// What our products share on processors with AVX-512. A tile of y is 6 rows of 64 columns: 24 sums, 4 vectors of B and
// one of x in 32 registers.

#include <cstdint>

// GCC 12 takes the undefined operands of its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#define NMT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace nmt::cpu::avx512 {

inline constexpr int kLanes = 16, kTileRows = 6, kTileColumns = 64, kVectors = kTileColumns / kLanes;
inline constexpr int64_t kLine = 64;  // bytes of the cache

// The lanes of the `left` columns that are left, of which there may be more or none.
NMT_AVX512 inline __mmask16 lanes_of(int64_t left) {
  return static_cast<__mmask16>(left >= kLanes ? 0xFFFF : left <= 0 ? 0 : (1 << left) - 1);
}

NMT_AVX512 inline __m512 load_bf16(__mmask16 lanes, const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p)), 16));
}

// NaN stays NaN, as maximum takes the second operand then.
NMT_AVX512 inline __m512 relu(__m512 v) { return _mm512_max_ps(_mm512_setzero_ps(), v); }

// For addresses that may lie past the end.
inline void prefetch(const void* p, int64_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)),
               _MM_HINT_T0);
}

}  // namespace nmt::cpu::avx512
