#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cpu/product_parts.h"
#include "tensor/dtype.h"

// Matrix products in the calling thread, what the parallel ones of gemm.h are made of: those of gemm_panels.h on
// processors that have them, else oneDNN's. (Those of bytes on processors that have gemm_bytes.h's: see gemm_int8.h.)
namespace nmt::cpu {

inline constexpr int64_t kRowBlock = 256;     // rows of y that one task computes: near the best rate, x stays in L2
inline constexpr int64_t kTaskColumns = 256;  // columns of B that one task computes where tasks are cut by columns

struct OneDnnProduct;  // a primitive

// The layout of B [k, n] for products y [m, n] = x [m, k] * B: our panels, those of bytes, or what oneDNN wants.
// Elements of B are of dtype t: kF32, kBF16, or kI8; those of x too, for kI8 they are kU8 and y is kI32. Panels of
// bytes are packed here, but multiplied by gemm_bytes.h, as their products have scales.
class PackedLayout {
 public:
  PackedLayout() = default;  // of nothing, and nothing can be done with it
  PackedLayout(DType t, int64_t n, int64_t k);
  // Of B [rows, n] for multiply_transposed() by matrices of dtype tx. It has elements of tx or, as operands are copied
  // anyway, kF32 for a bf16 that would be widened.
  static PackedLayout of_rows(DType tx, int64_t n, int64_t rows);

  DType dtype() const { return t_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t bytes() const;
  // Whether columns from a multiple of kPanel on can be packed and multiplied apart; else only all of them.
  bool has_panels() const;
  bool is_of_bytes() const { return kind_ == Kind::kBytes; }

  // Packs columns [begin, end) of plain elements of dtype `from`; w points at row 0 of column `begin` and has these
  // strides, of which one is 1. Into panels of nmt's own kF32 is packed, column after column or row after row, and
  // bytes into those of bytes, column after column.
  void pack(int64_t begin, int64_t end, DType from, const void* w, int64_t row, int64_t column,
            std::byte* packed) const;
  // Whether rows of B can be packed apart. Then packs rows [begin, end), begin a multiple of kPanel: x, without gaps.
  bool has_row_ranges() const { return kind_ == Kind::kPanels; }
  void pack_row_range(int64_t begin, int64_t end, const float* x, std::byte* packed) const;
  // Packs x [rows, end - begin] with the row stride ldx, in a layout of_rows() for its dtype tx; B's other rows
  // are zeros.
  void pack_rows(DType tx, int64_t begin, int64_t end, int64_t rows, const void* x, int64_t ldx,
                 std::byte* packed) const;

  // y [m, end - begin] of dtype ty with the row stride ldy = the epilogue of x * columns [begin, end); the bias is that
  // of column `begin`.
  void multiply(int64_t begin, int64_t end, int64_t m, const void* x, const std::byte* packed, DType ty, void* y,
                int64_t ldy, const Epilogue& e = {}) const;
  // y [m, n] float32 = or += x^T * B in a layout of_rows() for tx: x [rows, m] with the row stride ldx, below which are
  // zeros.
  void multiply_transposed(DType tx, int64_t rows, int64_t m, const void* x, int64_t ldx, const std::byte* packed,
                           float* y, bool accumulate) const;

 private:
  int64_t offset_of(int64_t column) const;  // bytes before a panel

  enum class Kind : uint8_t { kPanels, kBytes, kOneDnn };  // those of gemm_panels.h, of gemm_bytes.h

  DType t_ = DType::kF32;
  int64_t n_ = 0, k_ = 0;
  Kind kind_ = Kind::kOneDnn;
  std::shared_ptr<const OneDnnProduct> product_;  // with its layout; none where B is empty
};

// c [m, n] = a [m, k] * b [k, n], plain row-major matrices of dtype t (transposed: stored as [k, m], [n, k]). For small
// or rare products.
void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c);

inline const std::byte* offset(const void* data, int64_t elements, DType t) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}
inline std::byte* offset(void* data, int64_t elements, DType t) {
  return static_cast<std::byte*>(data) + elements * static_cast<int64_t>(size_of(t));
}

}  // namespace nmt::cpu
