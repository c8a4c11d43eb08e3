#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/panels.h"
#include "backend/cpu/product_parts.h"

// The innermost part of the products of gemm_bytes.h.
namespace nmt::cpu {

// Sums of some rows of x times a panel of B.
struct ByteTile {
  const uint8_t* x;
  int64_t row_bytes;  // from one of x to the next
  int64_t k;
  const std::byte* b;
  ColumnGroups groups;  // of the panel
  int64_t columns;      // of it that are wanted, 1 to kPanel
  Ahead ahead;
  int32_t* sums;  // [rows, kPanel]
};

// For 1 to kTileRows rows.
using ByteTiles = std::array<void (*)(const ByteTile&), kTileRows>;

// By AVX2; the panel's groups have 16 columns.
extern const ByteTiles kAvx2ByteTiles;

}  // namespace nmt::cpu
