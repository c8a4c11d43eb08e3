#include "backend/cpu/products.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/gemm_bytes.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/scratch.h"
#include "base/aligned.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cpu {

PackedLayout PackedLayout::of_rows(DType tx, int64_t n, int64_t rows) {
  return {type_of_copies(tx), n, round_up(rows, 64)};
}

int64_t PackedLayout::bytes() const { return divide_up(n_, kPanel) * panel_bytes(t_, k_); }

void PackedLayout::pack_columns(int64_t begin, int64_t end, const float* w, std::byte* packed) const {
  cpu::pack_columns(t_, k_, begin, end, w, packed);
}

void PackedLayout::pack_columns(int64_t begin, int64_t end, const int8_t* q, std::byte* packed) const {
  check(t_ == DType::kI8, "bytes in a layout of {}", name_of(t_));
  pack_bytes(begin, end, k_, q, packed);
}

void PackedLayout::pack_rows(DType tx, int64_t begin, int64_t end, int64_t rows, const void* x, int64_t ldx,
                             std::byte* packed) const {
  cpu::pack_rows(t_, k_, {begin, end, 0, k_}, tx, rows, x, ldx, packed);
}

void PackedLayout::pack_row_range(int64_t begin, int64_t end, const float* x, std::byte* packed) const {
  cpu::pack_rows(t_, k_, {0, n_, begin, end}, DType::kF32, end - begin, x, n_, packed);
}

void PackedLayout::multiply(int64_t begin, int64_t end, int64_t m, const void* x, const std::byte* packed, DType ty,
                            void* y, int64_t ldy, const Epilogue& e) const {
  check(t_ != DType::kI8, "products of bytes have scales");
  const int64_t n = end - begin;
  if (m == 0 || n == 0) return;
  const auto multiply_rows = [&](int64_t k, const void* rows, const std::byte* panels) {
    multiply_panels({t_, m, n, k, rows, panels, ty, y, ldy, e});
  };
  const std::byte* const panels = packed + begin / kPanel * panel_bytes(t_, k_);
  const int64_t whole = elements_of_step(t_);
  if (k_ > 0 && k_ % whole == 0) return multiply_rows(k_, x, panels);
  // Zeros fill up rows to whole steps, as they do B's columns, which have none where k is 0.
  const int64_t k = std::max(whole, round_up(k_, whole)), size = static_cast<int64_t>(size_of(t_));
  thread_local Scratch copies;  // of a vocabulary's logits many megabytes
  std::byte* const rows = copies.get(static_cast<size_t>(m * k * size));
  for (int64_t r = 0; r < m; ++r) {
    std::byte* const row = rows + r * k * size;
    if (k_ > 0) std::memcpy(row, offset(x, r * k_, t_), static_cast<size_t>(k_ * size));
    std::memset(row + k_ * size, 0, static_cast<size_t>((k - k_) * size));
  }
  const AlignedVector<std::byte> none(static_cast<size_t>(k_ > 0 ? 0 : divide_up(n, kPanel) * panel_bytes(t_, k)));
  multiply_rows(k, rows, k_ > 0 ? panels : none.data());
}

void PackedLayout::multiply_transposed(DType tx, int64_t rows, int64_t m, const void* x, int64_t ldx,
                                       const std::byte* packed, float* y, bool accumulate) const {
  check(t_ == type_of_copies(tx), "columns of {} in a layout of {}", name_of(tx), name_of(t_));
  if (m == 0 || n_ == 0) return;
  multiply_panels({tx, t_, m, n_, k_, rows, x, ldx, packed, y, n_, accumulate});
}

}  // namespace nmt::cpu
