#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/products.h"
#include "base/aligned.h"
#include "base/thread_pool.h"
#include "tensor/dtype.h"

// Matrix products: those of one thread are in products.h, those of bytes in gemm_int8.h. Each product is cut into
// blocks of a fixed size that single threads compute with sequential code, so the result does not depend on the number
// of threads. Activations are kF32 or kBF16; the products of a weight are computed in its packed type: kF32, kBF16
// (accumulated in float32), or kI8 (in int32).
namespace nmt::cpu {

// From AVX-512 on: products of many rows at the rate of float32 at least, and everything else on half the bytes.
bool multiplies_bf16();

// What multiplies here: "AMX", "AVX-512" or "AVX2".
const char* products_by();

// The right operand of y = x * B, B [K, N], in the layout that its products read.
//
// In kI8 each column of B is stored as integers of -127 to 127 times the column's scale, and each row of x becomes
// bytes when it is multiplied: x = low + step * q, from its least element to its largest. Then
//   y[r][c] = scale[c] * (step[r] * sum_k q[r][k] b[k][c] + low[r] * sum_k b[k][c]),
// exact sums of integers; nothing need be calibrated.
class PackedMatrix {
 public:
  // w is float32, row-major: [N, K] (so B = w^T, the layer y = x w^T) or, if `transposed`, [K, N] (so B = w: the
  // gradient dx = dy w, not for kI8). Packs in parallel into elements of dtype t; keeps its memory when the sizes stay.
  // Throws UserError where K is so large that sums of products of bytes overflow.
  void pack(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, bool transposed);

  // Of w [n, k] both, `b` = w^T and `gradient` = w, in one pass: w is read from memory once.
  static void pack_both(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, PackedMatrix& b,
                        PackedMatrix& gradient);

  const PackedLayout& layout() const { return layout_; }
  int64_t n() const { return layout_.n(); }
  int64_t k() const { return layout_.k(); }
  DType dtype() const { return layout_.dtype(); }
  int64_t bytes() const;
  const std::byte* data() const { return data_.data(); }
  const float* column_scales() const { return scales_.data(); }      // kI8: [N]
  const float* column_sums() const { return scales_.data() + n(); }  // kI8: scale * sum_k b[k] of each column, [N]

 private:
  void set_layout(DType t, int64_t n, int64_t k);
  void pack_int8(ThreadPool& pool, const float* w, int64_t n, int64_t k);

  PackedLayout layout_;
  UnsetVector<std::byte> data_;
  std::vector<float> scales_;  // of columns, then their sums
};

// y [m, N] (dtype ty) = activation(x [m, K] * B + bias); x is of dtype tx: B's, or for a B of kI8 kF32 or kBF16.
void multiply(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
              const Epilogue& epilogue = {});

// x as products with B read it: as it is, or for a B of kI8 its rows as bytes. Made and used in one thread.
class Operand {
 public:
  // x [m, K] of dtype tx; it must live as long as this is used. Memory is kept for the next one.
  void assign(const PackedMatrix& b, int64_t m, DType tx, const void* x);

 private:
  friend void multiply_block(const PackedMatrix&, int64_t, int64_t, const Operand&, int64_t, int64_t, float*);

  const void* x_ = nullptr;
  UnsetVector<uint8_t> bytes_;
  std::vector<RowScale> scales_;
};

// y [m, end - begin] float32 = rows [row, row + m) of x * columns [begin, end) of B, begin a multiple of kPanel, in the
// calling thread: for loops that are in parallel already.
void multiply_block(const PackedMatrix& b, int64_t begin, int64_t end, const Operand& x, int64_t row, int64_t m,
                    float* y);

// dw [n, k] float32 += dy^T x: dy [m, n], x [m, k] of dtype t (the gradient of a layer's weight).
void multiply_transposed(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, const void* x,
                         float* dw);

}  // namespace nmt::cpu
