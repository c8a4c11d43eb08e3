#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/panels.h"
#include "backend/cpu/product_parts.h"
#include "tensor/dtype.h"

// The innermost part of the products of gemm_panels.h.
namespace nmt::cpu {

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
