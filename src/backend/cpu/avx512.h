#pragma once

// What our products share on processors with AVX-512. A tile of y is 6 rows of 64 columns: 24 sums, 4 vectors of B and
// one of x in 32 registers.

#include <cstdint>

// GCC 12 takes the undefined operands of its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include "backend/cpu/gemm.h"

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

// What the epilogue makes of sums that become elements `at` .. of y, all but rounding; `bias` is theirs.
NMT_AVX512 [[gnu::always_inline]] inline __m512 with_epilogue(const Epilogue& e, __m512 bias, __m512 sums,
                                                              __mmask16 lanes, DType ty, const void* y, int64_t at) {
  __m512 v = _mm512_add_ps(sums, bias);
  if (e.accumulate)
    v = _mm512_add_ps(v, ty == DType::kF32 ? _mm512_maskz_loadu_ps(lanes, static_cast<const float*>(y) + at)
                                           : load_bf16(lanes, static_cast<const uint16_t*>(y) + at));
  // NaN stays NaN, as the maximum takes the second operand then.
  return e.activation == Activation::kRelu ? _mm512_max_ps(_mm512_setzero_ps(), v) : v;
}

NMT_AVX512 inline __m512 bias_of(const Epilogue& e, int64_t column, __mmask16 lanes) {
  return e.bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, e.bias + column);
}

// For addresses that may lie past the end.
inline void prefetch(const void* p, int64_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes)),
               _MM_HINT_T0);
}

}  // namespace nmt::cpu::avx512
