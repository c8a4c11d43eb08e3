#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/amx.h"
#include "backend/cpu/gemm_panels.h"

// What products by AMX share: in which order they go through blocks, and how their sums become y.
namespace nmt::cpu {

struct AmxPlace {
  int64_t row, column, line;
};

// The blocks of a product of m rows, n columns and sums of so many lines: all lines of some rows and columns, then
// the next columns, then the next rows.
struct AmxBlocks {
  int64_t m, n, lines;
  AmxPlace size;  // of a block, where there is as much left

  AmxPlace after(AmxPlace at) const {
    at.line += size.line;
    if (at.line >= lines) at = {at.row, at.column + size.column, 0};
    if (at.column >= n) at = {at.row + size.row, 0, 0};
    return at;
  }
  int64_t rows_at(const AmxPlace& at) const { return std::min(size.row, m - at.row); }
  int64_t columns_at(const AmxPlace& at) const { return std::min(size.column, n - at.column); }
  int64_t lines_at(const AmxPlace& at) const { return std::min(size.line, lines - at.line); }
};

// A row of a tile becomes elements of y, float32 or the bits of bf16; those of the lanes that there are.
NMT_AMX [[gnu::always_inline]] inline void store_amx_row(__mmask16 low_lanes, __mmask16 high_lanes, __m512 low,
                                                         __m512 high, float* y) {
  _mm512_mask_storeu_ps(y, low_lanes, low);
  _mm512_mask_storeu_ps(y + avx512::kLanes, high_lanes, high);
}
NMT_AMX [[gnu::always_inline]] inline void store_amx_row(__mmask16 low_lanes, __mmask16 high_lanes, __m512 low,
                                                         __m512 high, uint16_t* y) {
  const __mmask32 lanes = static_cast<__mmask32>(high_lanes) << avx512::kLanes | low_lanes;
  _mm512_mask_storeu_epi16(y, lanes, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

// Sums of a tile that become elements of y, float32 or the bits of bf16, beside the lines of the next product: some
// rows beside each.
template <class Y>
struct AmxFinish {
  const float* sums = nullptr;
  int64_t rows = 0;
  __mmask16 low = 0, high = 0;  // lanes of either half of its columns
  Y* y = nullptr;
  int64_t ldy = 0;
  Epilogue epilogue;  // with the tile's bias

  // Of p's y, which lies at its row and column.
  NMT_AMX static AmxFinish of(const PanelProduct& p, int64_t row, int64_t column, int64_t rows, const float* sums) {
    const int64_t left = p.n - column;
    AmxFinish f{.sums = sums,
                .rows = rows,
                .low = avx512::lanes_of(left),
                .high = avx512::lanes_of(left - avx512::kLanes),
                .y = static_cast<Y*>(p.y) + row * p.ldy + column,
                .ldy = p.ldy,
                .epilogue = p.epilogue};
    if (f.epilogue.bias != nullptr) f.epilogue.bias += column;
    return f;
  }

  // What of y is wanted when these sums are stored, so many rows at a time.
  AmxFetch fetch(int64_t rows_at_once) const {
    const auto row_bytes = static_cast<int64_t>(sizeof(Y)) * ldy;
    return {reinterpret_cast<const std::byte*>(y), rows_at_once * row_bytes, rows_at_once, row_bytes,
            kAmxColumns * static_cast<int64_t>(sizeof(Y))};
  }

  NMT_AMX [[gnu::always_inline]] void operator()(int64_t begin, int64_t end) const {
    const Epilogue e = epilogue;
    const __m512 floor = avx512::floor_of(e);
    const __m512 low_bias = avx512::bias_of(e, 0, low), high_bias = avx512::bias_of(e, avx512::kLanes, high);
    for (int64_t r = begin; r < std::min(rows, end); ++r) {
      Y* const to = y + r * ldy;
      const float* from = sums + r * kAmxColumns;
      store_amx_row(
          low, high, avx512::with_epilogue(e, floor, low_bias, _mm512_load_ps(from), low, to),
          avx512::with_epilogue(e, floor, high_bias, _mm512_load_ps(from + avx512::kLanes), high, to + avx512::kLanes),
          to);
    }
  }
};

}  // namespace nmt::cpu
