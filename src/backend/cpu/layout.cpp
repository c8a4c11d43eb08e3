#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/layout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// ---- conversions ------------------------------------------------------------------------------------------------
template <class F>
HWY_INLINE void with_float_type(DType t, F&& f) {
  if (t == DType::kF16) {
    f(f16());
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
// A tile of N rows (one vector of y) and C columns (one 128-bit block of x): the blocks of rows i, i + C, i + 2 C ...
// make vector i; log2 C rounds of a perfect shuffle, interleaving vector i with vector i + C / 2, then transpose every
// block.
template <class T>
class Tile {
 public:
  using D = hn::ScalableTag<T>;
  static constexpr int64_t kColumns = 16 / sizeof(T);

  static int64_t rows() { return static_cast<int64_t>(hn::Lanes(D())); }

  static HWY_INLINE void transpose(const T* x, int64_t ldx, T* y, int64_t ldy) {
    const D d;
    hn::Vec<D> a[kColumns], b[kColumns];
    for (int64_t i = 0; i < kColumns; ++i) a[i] = gather(d, x + i * ldx, ldx);
    for (int64_t columns = kColumns; columns > 1; columns /= 2) {
      for (int64_t i = 0; i < kColumns / 2; ++i) {
        b[2 * i] = hn::InterleaveLower(d, a[i], a[i + kColumns / 2]);
        b[2 * i + 1] = hn::InterleaveUpper(d, a[i], a[i + kColumns / 2]);
      }
      for (int64_t i = 0; i < kColumns; ++i) a[i] = b[i];
    }
    for (int64_t i = 0; i < kColumns; ++i) hn::StoreU(a[i], d, y + i * ldy);
  }

 private:
  // The 128-bit blocks at x, x + C ldx, x + 2 C ldx ... as one vector.
  template <class DV>
  static HWY_INLINE hn::Vec<DV> gather(DV d, const T* x, int64_t ldx) {
    if constexpr (hn::MaxLanes(DV()) <= kColumns) {
      return hn::LoadU(d, x);
    } else {
      const hn::Half<DV> half;
      const auto rows = static_cast<int64_t>(hn::Lanes(half));
      return hn::Combine(d, gather(half, x + rows * ldx, ldx), gather(half, x, ldx));
    }
  }
};

template <class T>
HWY_INLINE void transpose_elements(int64_t rows, int64_t columns, const T* x, int64_t ldx, T* y, int64_t ldy) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) y[c * ldy + r] = x[r * ldx + c];
  }
}

template <class T>
HWY_INLINE void transpose_blocks(int64_t rows, int64_t columns, const T* x, int64_t ldx, T* y, int64_t ldy) {
  // The tiles walk down 256 rows, then go to the next columns: few columns of y are written at a time, in long runs,
  // and the cache still holds the block's lines of x when their next columns are read.
  constexpr int64_t kBlock = 256;
  const int64_t step = Tile<T>::rows();
  const int64_t whole_rows = rows / step * step;
  const int64_t whole_columns = columns / Tile<T>::kColumns * Tile<T>::kColumns;
  for (int64_t begin = 0; begin < whole_rows; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, whole_rows);
    for (int64_t c = 0; c < whole_columns; c += Tile<T>::kColumns) {
      for (int64_t r = begin; r < end; r += step) Tile<T>::transpose(x + r * ldx + c, ldx, y + c * ldy + r, ldy);
    }
    transpose_elements(end - begin, columns - whole_columns, x + begin * ldx + whole_columns, ldx,
                       y + whole_columns * ldy + begin, ldy);
  }
  transpose_elements(rows - whole_rows, columns, x + whole_rows * ldx, ldx, y + whole_rows, ldy);
}

void transpose(DType t, int64_t rows, int64_t columns, const void* x, int64_t ldx, void* y, int64_t ldy) {
  const auto move = [&](auto bits) {
    using T = decltype(bits);
    transpose_blocks(rows, columns, static_cast<const T*>(x), ldx, static_cast<T*>(y), ldy);
  };
  check(size_of(t) == 4 || size_of(t) == 2, "transpose of {}", name_of(t));
  size_of(t) == 4 ? move(uint32_t{}) : move(uint16_t{});
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

void transpose(DType t, int64_t rows, int64_t columns, const void* x, int64_t ldx, void* y, int64_t ldy) {
  HWY_DYNAMIC_DISPATCH(transpose)(t, rows, columns, x, ldx, y, ldy);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
