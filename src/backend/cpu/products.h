#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/product_parts.h"
#include "tensor/dtype.h"

// Matrix products in the calling thread, what the parallel ones of gemm.h are made of. (Those of bytes have scales: see
// gemm_int8.h.)
namespace nmt::cpu {

inline constexpr int64_t kRowBlock = 256;     // rows of y that one task computes: near the best rate, x stays in L2
inline constexpr int64_t kTaskColumns = 256;  // columns of B that one task computes where tasks are cut by columns

// B [k, n] of dtype t, kF32, kBF16 or kI8, in panels (panels.h) for products y [m, n] = x [m, k] * B.
class PackedLayout {
 public:
  PackedLayout() = default;  // of nothing
  PackedLayout(DType t, int64_t n, int64_t k) : t_(t), n_(n), k_(k) {}
  // Of B [rows, n] for multiply_transposed() by matrices of dtype tx. It has elements of tx or, as operands are copied
  // anyway, kF32 for a bf16 that would be widened.
  static PackedLayout of_rows(DType tx, int64_t n, int64_t rows);

  DType dtype() const { return t_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const;

  // Packs columns [begin, end), begin a multiple of kPanel, each of which is a row of w or q [end - begin, k].
  void pack_columns(int64_t begin, int64_t end, const float* w, std::byte* packed) const;
  void pack_columns(int64_t begin, int64_t end, const int8_t* q, std::byte* packed) const;  // of kI8
  // The same of x [rows, end - begin] of dtype tx with the row stride ldx; B's other rows are zeros. Not of kI8.
  void pack_rows(DType tx, int64_t begin, int64_t end, int64_t rows, const void* x, int64_t ldx,
                 std::byte* packed) const;
  // Packs rows [begin, end), begin a multiple of kPanel: x [end - begin, n]. Not of kI8.
  void pack_row_range(int64_t begin, int64_t end, const float* x, std::byte* packed) const;

  // y [m, end - begin] of dtype ty with the row stride ldy = the epilogue of x * columns [begin, end); the bias is that
  // of column `begin`. Not of kI8.
  void multiply(int64_t begin, int64_t end, int64_t m, const void* x, const std::byte* packed, DType ty, void* y,
                int64_t ldy, const Epilogue& e = {}) const;
  // y [m, n] float32 = or += x^T * B in a layout of_rows() for tx: x [rows, m] with the row stride ldx, below which are
  // zeros.
  void multiply_transposed(DType tx, int64_t rows, int64_t m, const void* x, int64_t ldx, const std::byte* packed,
                           float* y, bool accumulate) const;

 private:
  DType t_ = DType::kF32;
  int64_t n_ = 0, k_ = 0;
};

// c [m, n] = a [m, k] * b [k, n], plain row-major matrices of dtype t, kF32 or kBF16 (transposed: stored as [k, m],
// [n, k]). For small or rare products: oneDNN's.
void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c);

inline const std::byte* offset(const void* data, int64_t elements, DType t) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}
inline std::byte* offset(void* data, int64_t elements, DType t) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}

}  // namespace nmt::cpu
