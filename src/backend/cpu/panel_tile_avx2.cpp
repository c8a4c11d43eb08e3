#include <algorithm>
#include <limits>

#include <immintrin.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/panel_tile.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/products.h"

// Of 16 registers 12 are sums: 6 rows of 16 columns.
#define NMT_AVX2 __attribute__((target("avx2,fma")))

namespace nmt::cpu {
namespace {

constexpr int kLanes = 8, kColumns = kGroup, kVectors = kColumns / kLanes;

// What the epilogue makes of the sums of a row; `held` is what y holds, and receives them. NaN stays NaN.
NMT_AVX2 [[gnu::always_inline]] inline void finish(Held how, __m256 floor, const float* bias,
                                                   const __m256 (&sums)[kVectors], float* held) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    float* to = held + v * kLanes;
    __m256 y = _mm256_add_ps(sums[v], _mm256_load_ps(bias + v * kLanes));
    if (how == Held::kAddend) y = _mm256_add_ps(y, _mm256_loadu_ps(to));
    y = _mm256_max_ps(floor, y);  // where one is NaN, the second
    if (how == Held::kRelu) y = _mm256_and_ps(_mm256_cmp_ps(_mm256_loadu_ps(to), _mm256_setzero_ps(), _CMP_GT_OQ), y);
    _mm256_storeu_ps(to, y);
  }
}

// Sums of a group's columns, of which y has so many from `first` on, become y.
template <int R>
NMT_AVX2 [[gnu::always_inline]] inline void finish(const Tile& t, int64_t first, const __m256 (&sums)[R][kVectors]) {
  const Epilogue e = t.epilogue;
  const int64_t columns = std::min<int64_t>(kColumns, t.columns - first);
  const bool whole = columns == kColumns && t.ty == DType::kF32;
  const __m256 floor = _mm256_set1_ps(e.activation == Activation::kRelu ? 0 : -std::numeric_limits<float>::infinity());
  alignas(kLine) float bias[kColumns] = {}, line[kColumns] = {};
  if (e.bias != nullptr) std::copy_n(e.bias + first, columns, bias);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    void* const y = offset(t.y, r * t.ldy + first, t.ty);
    if (whole) {
      finish(e.held, floor, bias, sums[r], static_cast<float*>(y));
      continue;
    }
    if (e.held != Held::kNothing) convert(t.ty, y, DType::kF32, line, columns);
    finish(e.held, floor, bias, sums[r], line);
    convert(DType::kF32, line, t.ty, y, columns);
  }
}

// The loops over rows and vectors are unrolled early, else GCC keeps the sums in memory.
template <int R, bool kAhead>
NMT_AVX2 void multiply_groups(const Tile& t) {
  const int64_t row = t.row_bytes;
  for (int64_t first = 0; first < t.columns; first += kColumns) {
    __m256 sums[R][kVectors];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = t.first_steps ? _mm256_setzero_ps() : _mm256_loadu_ps(t.sums + r * kPanel + first + v * kLanes);
    const std::byte *x = t.x, *b = t.b + first / kColumns * t.group_bytes;
    int64_t ahead = first / kColumns * t.group_bytes;
    for (int64_t i = t.steps; i > 0; --i, x += t.step_bytes, b += kLine, ahead += t.ahead.bytes) {
      if constexpr (kAhead) prefetch_far(t.ahead.share, ahead);
      const __m256 low = _mm256_load_ps(reinterpret_cast<const float*>(b)),
                   high = _mm256_load_ps(reinterpret_cast<const float*>(b) + kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const __m256 step = _mm256_broadcast_ss(reinterpret_cast<const float*>(x + r * row));
        sums[r][0] = _mm256_fmadd_ps(step, low, sums[r][0]);
        sums[r][1] = _mm256_fmadd_ps(step, high, sums[r][1]);
      }
    }
    if (t.last_steps) {
      finish(t, first, sums);
      continue;
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(t.sums + r * kPanel + first + v * kLanes, sums[r][v]);
  }
}

template <int R>
NMT_AVX2 void multiply_tile(const Tile& t) {
  t.ahead.share == nullptr ? multiply_groups<R, false>(t) : multiply_groups<R, true>(t);
}

}  // namespace

const Tiles kAvx2Tiles = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                          multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

}  // namespace nmt::cpu
