#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/product_parts.h"
#include "base/math.h"
#include "tensor/dtype.h"

// The innermost part of the products of gemm_panels.h.
namespace nmt::cpu {

// What tiles by AVX2 fetch of a panel, or of a part of its steps, while they multiply the one before: each a share, a
// little at each step. Where x has few rows B comes from memory faster so; with many it is more work than it saves.
struct Ahead {
  const std::byte* share = nullptr;  // of the first group of columns
  int64_t step_bytes = 0;

  // That of the tile that begins with `row`; `next`, of so many steps, may be null for there is none.
  static Ahead of(const std::byte* next, int64_t steps, int64_t row, int64_t rows) {
    constexpr int64_t kFewRows = 96;
    if (next == nullptr || rows > kFewRows) return {};
    const int64_t tiles = divide_up(rows, kTileRows);
    return {next + steps * (row / kTileRows) / tiles * kLine, divide_up(kLine, tiles)};
  }
};

// Some rows of x times a part of the steps of a panel of B.
struct Tile {
  const std::byte* x;
  int64_t row_bytes, step_bytes;  // from one of x to the next
  int64_t steps;
  const std::byte* b;
  int64_t group_bytes;  // from one of the panel's groups of columns to the next
  Ahead ahead;
  bool first_steps, last_steps;  // whether the sums begin with zeros, and end in y; else in `sums`
  float* sums;                   // [rows, kPanel]; null where these are all steps
  int64_t columns;               // of y, 1 to kPanel
  DType ty;
  void* y;
  int64_t ldy;
  Epilogue epilogue;
};

// For 1 to kTileRows rows.
using Tiles = std::array<void (*)(const Tile&), kTileRows>;

// Of float32, by AVX2; the panel's groups have 16 columns.
extern const Tiles kAvx2Tiles;

}  // namespace nmt::cpu
