#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/product_parts.h"
#include "base/math.h"
#include "tensor/dtype.h"

// Operands of the products of gemm_panels.h, copied into the order in which those read them.
//
// A step of a product's sum takes 4 bytes of a column: an element of float32, two of bf16, or four bytes.
namespace nmt::cpu {

inline constexpr int64_t kStepBytes = 4;

inline int64_t elements_of_step(DType t) { return kStepBytes / static_cast<int64_t>(size_of(t)); }

// Columns step by step: in groups, one after another, of so many columns, whose elements of a step lie side by side.
struct ColumnGroups {
  int64_t columns, steps;

  int64_t step_bytes() const { return columns * kStepBytes; }
  int64_t bytes() const { return steps * step_bytes(); }  // of a group
  int64_t offset_of(int64_t column) const { return column / columns * bytes() + column % columns * kStepBytes; }
};

// Bytes of kPanel columns of B [k, n]. Zeros fill up n to a multiple of kPanel, k to whole lines: 64 bytes of each
// column.
int64_t panel_bytes(DType t, int64_t k);

// Elements of a column in a line.
inline int64_t line_elements(DType t) { return kLine / static_cast<int64_t>(size_of(t)); }

// Columns of a group for AVX2, whose registers hold the sums of so many, and of bf16 and bytes for AMX, whose tiles
// have so many. A step of a group is a line.
inline constexpr int64_t kGroup = 16;
static_assert(kGroup * kStepBytes == kLine);

// The groups of a panel: one where AVX-512 multiplies, else of kGroup columns. oneDNN calls these layouts BA16a64b and
// BA16a16b for float32, BA16a64b2a and BA16a16b2a for bf16, BA16a64b4a and BA16a16b4a for bytes.
ColumnGroups groups_of_panel(DType t, int64_t k);

// Steps of a panel, where those of its first group of columns lie; none where there are none.
struct PanelSteps {
  const std::byte* at = nullptr;
  int64_t count = 0;
  int64_t step_bytes = 0;  // from one of a group to the next
};

// What a tile of a product by vectors fetches of the steps that come after those which it multiplies: a share, a little
// at each step, of every group. B comes from memory faster so; by AVX2 it is more work than it saves where x has many
// rows.
struct Ahead {
  const std::byte* share = nullptr;  // of the first group; null: nothing
  int64_t bytes = 0;                 // from what is fetched at a step to the next

  // That of the tile which begins with `row` of so many.
  static Ahead of(const PanelSteps& next, int64_t row, int64_t rows);
};

// What of B [k, n] is packed: columns from a multiple of kPanel on, rows from a multiple of line_elements() on. The
// last part, which ends with n or with k, has the zeros, too.
struct PanelPart {
  int64_t column, end_column, row, end_row;
};

// Packs x, row-major with the row stride ldx, as such a part of dtype t; below its rows are zeros. t and tx are kF32 or
// kBF16, without AVX-512 both kF32.
void pack_rows(DType t, int64_t k, const PanelPart& part, DType tx, int64_t rows, const void* x, int64_t ldx,
               std::byte* packed);

// Packs columns [begin, end), from a multiple of kPanel on, each of which is a row of w [end - begin, k] float32. t is
// kF32 or, with AVX-512, kBF16.
void pack_columns(DType t, int64_t k, int64_t begin, int64_t end, const float* w, std::byte* packed);

// The columns of x [rows, columns] as one group of dtype t, whose columns are a multiple of 16; the others are zeros,
// and the steps below x's rows.
void group_columns(DType t, const ColumnGroups& group, DType tx, int64_t rows, int64_t columns, const void* x,
                   int64_t ldx, std::byte* to);

}  // namespace nmt::cpu
