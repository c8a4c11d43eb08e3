#pragma once

// What our products share on processors with AVX-512. A tile of y is 6 rows of a panel's 64 columns: 24 sums, 4 vectors
// of B and one of x in 32 registers.

#include <cstdint>
#include <limits>

// GCC 12 takes the undefined operands of its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include "backend/cpu/product_parts.h"

#define NMT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace nmt::cpu::avx512 {

inline constexpr int kLanes = 16, kVectors = kPanel / kLanes;

// The lanes of the `left` columns that are left, of which there may be more or none.
NMT_AVX512 inline __mmask16 lanes_of(int64_t left) {
  return static_cast<__mmask16>(left >= kLanes ? 0xFFFF : left <= 0 ? 0 : (1 << left) - 1);
}

// The same of the 32 elements of a line of bf16.
NMT_AVX512 inline __mmask32 lanes_of_line(int64_t left) {
  return static_cast<__mmask32>(lanes_of(left - kLanes)) << kLanes | lanes_of(left);
}

// Elements of a matrix: float32, or the bits of bf16.
NMT_AVX512 inline __m512 load(__mmask16 lanes, const float* p) { return _mm512_maskz_loadu_ps(lanes, p); }
NMT_AVX512 inline __m512 from_bf16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
NMT_AVX512 inline __m512 load(__mmask16 lanes, const uint16_t* p) {
  return from_bf16(_mm256_maskz_loadu_epi16(lanes, p));
}
NMT_AVX512 inline __m512 load(const uint16_t* p) { return from_bf16(_mm256_loadu_epi16(p)); }

// Rounded to nearest even, the bits of bf16 are the high halves; NaN stays NaN.
NMT_AVX512 inline __m512i round_to_bf16(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}
NMT_AVX512 inline __m256i to_bf16(__m512 v) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_to_bf16(v), 16)); }

NMT_AVX512 inline __m512 bias_of(const Epilogue& e, int64_t column, __mmask16 lanes) {
  return e.bias == nullptr ? _mm512_setzero_ps() : load(lanes, e.bias + column);
}

// The least that the activation makes of a sum.
NMT_AVX512 inline __m512 floor_of(const Epilogue& e) {
  return _mm512_set1_ps(e.activation == Activation::kRelu ? 0 : -std::numeric_limits<float>::infinity());
}

// What the epilogue makes of sums that become the elements at y, all but rounding; `floor` and `bias` are theirs. NaN
// stays NaN.
template <class Y>
NMT_AVX512 [[gnu::always_inline]] inline __m512 with_epilogue(const Epilogue& e, __m512 floor, __m512 bias, __m512 sums,
                                                              __mmask16 lanes, const Y* y) {
  __m512 v = _mm512_add_ps(sums, bias);
  if (e.held == Held::kAddend) v = _mm512_add_ps(v, load(lanes, y));
  v = _mm512_max_ps(floor, v);  // where one is NaN, the second
  if (e.held == Held::kRelu)
    v = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(load(lanes, y), _mm512_setzero_ps(), _CMP_GT_OQ), v);
  return v;
}

using Vectors = __m512i[kLanes];

// 16 x 16 numbers of 32 bits. After the two unpackings vector 4 * g + i holds, in its quarters, column 4 * q + i of
// rows 4 * g to 4 * g + 3; then the quarters are put where they belong.
NMT_AVX512 inline void transpose(Vectors& v) {
  Vectors a, b;
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    a[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88),
                  odd_low = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xDD);
    const __m512i high = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88),
                  odd_high = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xDD);
    v[i] = _mm512_shuffle_i32x4(low, high, 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(low, high, 0xDD);
    v[4 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    v[12 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
  }
}

}  // namespace nmt::cpu::avx512
