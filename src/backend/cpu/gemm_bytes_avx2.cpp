#include <algorithm>
#include <array>
#include <cstring>

#include <immintrin.h>

#include "backend/cpu/gemm_bytes.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/products.h"
#include "base/math.h"

#define NMT_AVX2 __attribute__((target("avx2")))

namespace nmt::cpu {
namespace {

constexpr int kLanes = 8, kColumns = kGroup, kVectors = kColumns / kLanes;

using Step = __m256i[kVectors];  // four bytes of each column

NMT_AVX2 [[gnu::always_inline]] inline void load(const std::byte* group, Step& to) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
    to[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(group + v * (kLine / kVectors)));
}

// Four bytes of a row of x.
NMT_AVX2 [[gnu::always_inline]] inline __m256i load(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

// sums [R, 16] with the row stride kPanel, of R rows of x, of so many times eight bytes, and the 16 columns of a
// panel's group that begins `group` bytes after it.
template <int R, bool kAhead>
NMT_AVX2 void multiply_group(const uint8_t* x, int64_t row_bytes, int64_t eights, const std::byte* panel, int64_t group,
                             const Ahead& ahead, int32_t* to) {
  const std::byte* b = panel + group;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (int64_t i = 0; i < eights; ++i, b += 2 * kLine) {
    Step first, second;
    load(b, first);
    load(b + kLine, second);
    if constexpr (kAhead) {
      prefetch_far(ahead.share, group + 2 * i * ahead.bytes);
      prefetch_far(ahead.share, group + (2 * i + 1) * ahead.bytes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const uint8_t* const row = x + r * row_bytes + i * 2 * kStepBytes;
      const __m256i x_first = load(row), x_second = load(row + kStepBytes);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i fours =
            _mm256_add_epi16(_mm256_maddubs_epi16(x_first, first[v]), _mm256_maddubs_epi16(x_second, second[v]));
        sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(fours, ones));
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + r * kPanel + v * kLanes), sums[r][v]);
}

// Of so many columns of the panel.
template <int R>
void multiply_rows(const uint8_t* x, int64_t row_bytes, int64_t eights, const std::byte* panel, int64_t group_bytes,
                   int64_t columns, const Ahead& ahead, int32_t* to) {
  const auto multiply = ahead.share == nullptr ? multiply_group<R, false> : multiply_group<R, true>;
  for (int64_t first = 0; first < columns; first += kColumns)
    multiply(x, row_bytes, eights, panel, first / kColumns * group_bytes, ahead, to + first);
}

}  // namespace

void multiply_bytes_by_avx2(const ByteProduct& p) {
  static constexpr std::array kProducts = {multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                           multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};
  const int64_t row_bytes = bytes_of_row(p.k), eights = divide_up(p.k, 2 * kStepBytes);
  const ColumnGroups g = groups_of_panel(DType::kI8, p.k);
  alignas(kLine) int32_t sums[kTileRows * kPanel];
  for (int64_t column = p.begin; column < p.end; column += kPanel) {
    const int64_t columns = std::min(kPanel, p.end - column);
    const std::byte* const panel = p.packed + g.offset_of(column);
    const PanelSteps next =
        column + kPanel < p.end ? PanelSteps{p.packed + g.offset_of(column + kPanel), 2 * eights} : PanelSteps();
    const float* const bias = p.epilogue.bias == nullptr ? nullptr : p.epilogue.bias + column - p.begin;
    for (int64_t row = 0; row < p.m; row += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, p.m - row);
      kProducts[static_cast<size_t>(rows - 1)](p.q + row * row_bytes, row_bytes, eights, panel, g.bytes(), columns,
                                               Ahead::of(next, row, p.m), sums);
      dequantise(p.ty, rows, columns, sums, kPanel, p.rows + row, p.scale + column, p.sum + column, bias,
                 p.epilogue.activation == Activation::kRelu, offset(p.y, row * p.ldy + column - p.begin, p.ty), p.ldy);
    }
  }
}

}  // namespace nmt::cpu
