#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/layout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// ---- conversions ------------------------------------------------------------------------------------------------
// Whose rounding keeps subnormal numbers, too.
template <class F>
HWY_INLINE void with_float_type(DType t, F&& f) {
  if (t == DType::kF16) {
    f(f16());
  } else if (t == DType::kBF16) {
    f(bf16());
  } else {
    with_type(t, f);
  }
}

void convert(DType from, const void* x, DType to, void* y, int64_t n) {
  if (from == to) {
    if (n > 0) std::memcpy(y, x, static_cast<size_t>(n) * size_of(from));
    return;
  }
  with_float_type(from, [&](auto from_type) HWY_ATTR {
    with_float_type(to, [&](auto to_type) HWY_ATTR {
      const auto* in = static_cast<const decltype(from_type)*>(x);
      auto* out = static_cast<decltype(to_type)*>(y);
      const DF d;
      for_each(d, n, [&](int64_t i, size_t lanes) HWY_ATTR { store(d, load(d, in + i, lanes), out + i, lanes); });
    });
  });
}

// ---- transpose --------------------------------------------------------------------------------------------------
HWY_INLINE void transpose_elements(int64_t rows, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) y[c * ldy + r] = x[r * ldx + c];
  }
}

void transpose(int64_t rows, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy) {
  // The tiles walk down 256 rows, then go to the next columns: few columns of y are written at a time, in long runs,
  // and the cache still holds the block's lines of x when their next columns are read.
  constexpr int64_t kBlock = 256;
  constexpr int64_t kLine = 64 / sizeof(float), kTilesOfLine = kLine / TransposeTile::kColumns;
  const int64_t step = TransposeTile::rows();
  const int64_t whole_rows = rows / step * step;
  const int64_t whole_columns = columns / TransposeTile::kColumns * TransposeTile::kColumns;
  for (int64_t begin = 0; begin < whole_rows; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, whole_rows);
    for (int64_t c = 0; c < whole_columns; c += TransposeTile::kColumns) {
      // A part of what the line's tiles read of the next lines, or of the next block's first.
      const int64_t line = c / kLine * kLine + kLine;
      const float* next = line < columns ? x + line : x + kBlock * ldx;
      const int64_t part = step / kTilesOfLine, skip = c % kLine / TransposeTile::kColumns * part;
      for (int64_t r = begin; r < end; r += step) {
        for (int64_t i = 0; i < part; ++i) hwy::Prefetch(next + (r + skip + i) * ldx);
        TransposeTile::transpose(x + r * ldx + c, ldx, y + c * ldy + r, ldy);
      }
    }
    transpose_elements(end - begin, columns - whole_columns, x + begin * ldx + whole_columns, ldx,
                       y + whole_columns * ldy + begin, ldy);
  }
  transpose_elements(rows - whole_rows, columns, x + whole_rows * ldx, ldx, y + whole_rows, ldy);
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(convert);
HWY_EXPORT(transpose);

void convert(DType from, const void* x, DType to, void* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(convert)(from, x, to, y, n);
}

void transpose(int64_t rows, int64_t columns, const float* x, int64_t ldx, float* y, int64_t ldy) {
  HWY_DYNAMIC_DISPATCH(transpose)(rows, columns, x, ldx, y, ldy);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
