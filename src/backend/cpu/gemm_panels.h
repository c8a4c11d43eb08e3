#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/panels.h"
#include "backend/cpu/product_parts.h"
#include "tensor/dtype.h"

// Products of float32 by AVX2, and of float32 and bf16 by AVX-512 or AMX. They fetch ahead what the processor does not
// foresee, cost nothing to begin, and read x by columns, for gradients of weights, as well as by rows: what a task has
// of it is copied, by AVX2 transposed, by AVX-512 in groups of columns, by AMX block by block, in L2.
namespace nmt::cpu {

// Whether elements of bf16 become float32 to be multiplied: not by AMX, but by AVX-512 alone, and where the
// instructions for pairs of bf16 are slower. AMD's have twice the rate of float32, Intel's half of it (measured on a
// Xeon of family 6, model 207).
bool widens_bf16();

// What elements of dtype t are copied as, where they are copied to be multiplied.
inline DType type_of_copies(DType t) { return t == DType::kBF16 && widens_bf16() ? DType::kF32 : t; }

// y [m, n] (kF32 or kBF16, row stride ldy) = the epilogue of x [m, k] * B; rows of x are without gaps.
struct PanelProduct {
  DType t;
  int64_t m, n, k;  // positive, k for kBF16 even
  const void* x;
  const std::byte* b;  // the panels of y's columns
  DType ty;
  void* y;
  int64_t ldy;
  Epilogue epilogue;
};
void multiply_panels(const PanelProduct& p);

// y [m, n] float32, row stride ldy, = or += x^T * B: x [rows, m] of dtype tx, of which t is type_of_copies(), with
// the row stride ldx; below its rows are zeros, up to k. m, n and k are positive, k for kBF16 even.
struct TransposedPanelProduct {
  DType tx, t;
  int64_t m, n, k, rows;
  const void* x;
  int64_t ldx;
  const std::byte* b;
  float* y;
  int64_t ldy;
  bool accumulate;
};
void multiply_panels(const TransposedPanelProduct& p);

// The same by vectors; of float32 also where there is AMX.
void multiply_panels_by_vectors(const PanelProduct& p);
void multiply_panels_by_vectors(const TransposedPanelProduct& p);

// What it does with y, as a product of other rows: x is none.
inline PanelProduct product_of(const TransposedPanelProduct& p) {
  return {p.t, p.m,         p.n, p.k,   nullptr,
          p.b, DType::kF32, p.y, p.ldy, {.held = p.accumulate ? Held::kAddend : Held::kNothing}};
}

}  // namespace nmt::cpu
