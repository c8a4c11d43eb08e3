#include "backend/cpu/gemm_amx.h"

#include <algorithm>

#include "backend/cpu/amx.h"
#include "backend/cpu/amx_blocks.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/scratch.h"
#include "base/math.h"

namespace nmt::cpu {
namespace {

using namespace avx512;

// A block of a product: B's columns, and sums that wait for the next lines, stay in L2; a tile's rows of x stay in L1
// for all columns.
constexpr int64_t kBlockRows = 256, kBlockColumns = 512, kBlockLines = 16;
constexpr int64_t kLineElements = kLine / 2;       // of a row of x
constexpr int64_t kSums = kAmxRows * kAmxColumns;  // of a tile
constexpr int64_t kRowsLine = kAmxRows * kLine;    // bytes of a line of a tile's rows, one after the other

// ---- x ----------------------------------------------------------------------------------------------------------

// A tile's rows, or a part of their lines.
struct TileRows {
  const std::byte* at;
  int64_t row_bytes, line_bytes;  // from a row to the next, and from a line
};

// x [m, k] as it is, where tiles can read it.
class RowsOfX {
 public:
  explicit RowsOfX(const PanelProduct& p)
      : x_(static_cast<const std::byte*>(p.x)),
        bytes_(p.k * 2),
        // Rows a multiple of 2,048 bytes apart would share few sets of the cache, and tiles read whole lines.
        copies_(bytes_ % 2048 == 0 || bytes_ % kLine != 0) {}

  void begin_block(const AmxPlace&) {}

  NMT_AMX TileRows tile(const AmxPlace& at, int64_t rows, int64_t lines) const {
    const std::byte* x = address(at);
    if (!copies_) return {x, bytes_, kLine};
    thread_local Scratch scratch;
    constexpr int64_t kRow = (kBlockLines + 1) * kLine;
    std::byte* const copy = scratch.get(kAmxRows * kRow);
    const int64_t bytes = std::min(lines * kLine, bytes_ - at.line * kLine), whole = bytes / kLine * kLine;
    const __mmask64 rest = (__mmask64{1} << (bytes - whole)) - 1;
    for (int64_t r = 0; r < rows; ++r, x += bytes_) {
      std::byte* const to = copy + r * kRow;
      for (int64_t i = 0; i < whole; i += kLine) _mm512_store_si512(to + i, _mm512_loadu_si512(x + i));
      if (rest != 0) _mm512_store_si512(to + whole, _mm512_maskz_loadu_epi8(rest, x + whole));
    }
    return {copy, kRow, kLine};
  }

  // A part of a tile's rows, of which a line comes beside each line.
  AmxFetch fetch(const AmxPlace& at, int64_t begin, int64_t end) const {
    return {address(at) + begin * bytes_, kLine, end - begin, bytes_, kLine};
  }

 private:
  const std::byte* address(const AmxPlace& at) const { return x_ + at.row * bytes_ + at.line * kLine; }

  const std::byte* x_;
  int64_t bytes_;
  bool copies_;
};

// Eight rows of 32 columns as columns: vector c has the columns c, 8 + c, 16 + c and 24 + c.
NMT_AMX [[gnu::always_inline]] inline void transpose_blocks(const __m512i (&rows)[8], __m512i* columns) {
  __m512i a[8], b[8];
#pragma GCC unroll 4
  for (int64_t r = 0; r < 8; r += 2) {
    b[r] = _mm512_unpacklo_epi16(rows[r], rows[r + 1]);      // columns 0 to 3 of two rows
    b[r + 1] = _mm512_unpackhi_epi16(rows[r], rows[r + 1]);  // 4 to 7
  }
#pragma GCC unroll 2
  for (int64_t r = 0; r < 8; r += 4) {
    a[r] = _mm512_unpacklo_epi32(b[r], b[r + 2]);          // 0 and 1 of four rows
    a[r + 1] = _mm512_unpackhi_epi32(b[r], b[r + 2]);      // 2 and 3
    a[r + 2] = _mm512_unpacklo_epi32(b[r + 1], b[r + 3]);  // 4 and 5
    a[r + 3] = _mm512_unpackhi_epi32(b[r + 1], b[r + 3]);  // 6 and 7
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < 4; ++r) {
    columns[2 * r] = _mm512_unpacklo_epi64(a[r], a[r + 4]);
    columns[2 * r + 1] = _mm512_unpackhi_epi64(a[r], a[r + 4]);
  }
}

// to [32 columns, 32 rows] = the elements of x, of which there are so many rows and columns; the others are zeros.
// Fetches the 32 rows below.
template <bool kWhole>
NMT_AMX void transpose_line(int64_t rows, int64_t columns, const uint16_t* x, int64_t ldx, std::byte* to) {
  alignas(kLine) __m512i groups[4][8];  // of eight rows
  const __mmask32 lanes = lanes_of_line(columns);
  for (int64_t g = 0; g < 4; ++g, x += 8 * ldx, rows -= 8) {
    __m512i a[8];
#pragma GCC unroll 8
    for (int64_t r = 0; r < 8; ++r) {
      if constexpr (kWhole)
        a[r] = _mm512_loadu_si512(x + r * ldx);
      else
        a[r] = _mm512_maskz_loadu_epi16(r < rows ? lanes : 0, x + r * ldx);
      prefetch_far(x, (kLineElements + r) * ldx * 2);
    }
    transpose_blocks(a, groups[g]);
  }
  for (int64_t c = 0; c < kAmxRows; ++c) {
    const auto* from = reinterpret_cast<const __m128i*>(&groups[0][c % 8]) + c / 8;
    constexpr int64_t kGroup = 8 * 4;  // blocks of 16 bytes
    __m512i v = _mm512_castsi128_si512(_mm_load_si128(from));
    v = _mm512_inserti32x4(v, _mm_load_si128(from + kGroup), 1);
    v = _mm512_inserti32x4(v, _mm_load_si128(from + 2 * kGroup), 2);
    v = _mm512_inserti32x4(v, _mm_load_si128(from + 3 * kGroup), 3);
    _mm512_store_si512(to + c * kLine, v);
  }
}

// The columns of x [rows, m] as rows, a block of them at a time.
class ColumnsOfX {
 public:
  explicit ColumnsOfX(const TransposedPanelProduct& p)
      : p_(p), lines_(divide_up(p.k, kLineElements)), slots_(p.n > kBlockColumns ? divide_up(lines_, kBlockLines) : 1) {
    thread_local Scratch scratch;
    rows_ = scratch.get(static_cast<size_t>(slots_ * kSlot));
  }

  NMT_AMX void begin_block(const AmxPlace& at) {
    if (at.column > 0) return;
    const int64_t end = std::min(at.row + kBlockRows, p_.m);
    for (int64_t line = at.line; line < std::min(at.line + kBlockLines, lines_); ++line)
      for (int64_t column = at.row; column < end; column += kAmxRows) {
        const int64_t row = line * kLineElements, rows = p_.rows - row, columns = end - column;
        const auto* x = static_cast<const uint16_t*>(p_.x) + row * p_.ldx + column;
        const auto transpose =
            rows >= kLineElements && columns >= kAmxRows ? transpose_line<true> : transpose_line<false>;
        transpose(rows, columns, x, p_.ldx,
                  slot(at) + (column - at.row) * kBlockLines * kLine + (line - at.line) * kRowsLine);
      }
  }

  TileRows tile(const AmxPlace& at, int64_t, int64_t) const {
    return {slot(at) + at.row % kBlockRows * kBlockLines * kLine, kLine, kRowsLine};
  }

  AmxFetch fetch(const AmxPlace&, int64_t, int64_t) const { return {}; }  // a block is in L2

 private:
  static constexpr int64_t kSlot = kBlockRows * kBlockLines * kLine;

  std::byte* slot(const AmxPlace& at) const { return rows_ + at.line / kBlockLines % slots_ * kSlot; }

  const TransposedPanelProduct& p_;
  int64_t lines_, slots_;
  std::byte* rows_;  // of a block: a tile's lines one after another; of all blocks of lines where other columns follow
};

// ---- products -----------------------------------------------------------------------------------------------------

// Of x's rows (RowsOfX or ColumnsOfX).
template <class Y, class X>
class Product {
 public:
  Product(const PanelProduct& p, X x)
      : p_(p),
        x_(x),
        blocks_{p.m, p.n, divide_up(p.k, kLineElements), {kBlockRows, kBlockColumns, kBlockLines}},
        group_bytes_(groups_of_panel(p.t, p.k).bytes()) {
    thread_local Scratch scratch;
    const int64_t tiles = blocks_.lines > kBlockLines ? kBlockRows * kBlockColumns / kSums : 1;
    sums_ = reinterpret_cast<float*>(scratch.get(static_cast<size_t>(tiles * kSums) * sizeof(float)));
  }

  NMT_AMX void multiply() {
    for (AmxPlace at{}; at.row < p_.m; at = blocks_.after(at)) {
      x_.begin_block(at);
      multiply_block(at);
    }
    finish_(0, kAmxRows);
  }

 private:
  const std::byte* b(const AmxPlace& at) const {
    return p_.b + at.column / kAmxTile * group_bytes_ + at.line * kAmxTileBytes;
  }

  NMT_AMX void multiply_block(const AmxPlace& at) {
    const AmxPlace next = blocks_.after(at);
    const int64_t rows = blocks_.rows_at(at), columns = blocks_.columns_at(at), lines = blocks_.lines_at(at);
    const int64_t tiles = divide_up(rows, kAmxRows), halves = divide_up(columns, kAmxColumns);
    const bool last_lines = at.line + lines == blocks_.lines, all_lines = lines == blocks_.lines;
    const bool other_columns = b(next) != b(at);
    const int64_t rows_of_line = divide_up(kAmxRows, lines), x_rows = divide_up(kAmxRows, halves);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = at.row + tile * kAmxRows, tile_rows = std::min(kAmxRows, p_.m - row);
      const TileRows x = x_.tile({row, 0, at.line}, tile_rows, lines);
      const AmxPlace next_rows = tile + 1 < tiles ? AmxPlace{row + kAmxRows, 0, at.line} : next;
      tiles_.configure(tile_rows);
      for (int64_t half = 0; half < halves; ++half) {
        const int64_t column = at.column + half * kAmxColumns;
        float* const sums = sums_ + (all_lines ? 0 : half * (kBlockRows / kAmxRows) + tile) * kSums;
        const auto finish = AmxFinish<Y>::of(p_, row, column, tile_rows, sums);
        const AmxFetch fetch_y = last_lines ? finish.fetch(rows_of_line) : AmxFetch{};
        const AmxFetch fetch_x = x_.fetch(next_rows, half * x_rows, std::min((half + 1) * x_rows, kAmxRows));
        const AmxFetch fetch_b =
            other_columns ? part_of_groups(b(next) + 2 * half * group_bytes_, group_bytes_, tile, tiles) : AmxFetch{};
        const auto meanwhile = [&](int64_t i) NMT_AMX __attribute__((always_inline)) {
          finish_(i * rows_of_line, (i + 1) * rows_of_line);
          fetch_x(i);
          fetch_b(i);
          fetch_y(i);
        };
        tiles_.multiply<AmxNumbers::kBF16, AmxStays::kX>({.lines = lines,
                                                          .x = x.at,
                                                          .row_bytes = x.row_bytes,
                                                          .line_bytes = x.line_bytes,
                                                          .b = b(at) + 2 * half * group_bytes_,
                                                          .group_bytes = group_bytes_,
                                                          .add = at.line > 0,
                                                          .sums = sums},
                                                         meanwhile);
        finish_ = last_lines ? finish : AmxFinish<Y>{};
      }
    }
  }

  const PanelProduct& p_;
  X x_;
  AmxBlocks blocks_;
  int64_t group_bytes_;
  float* sums_;  // of the tiles of a block or, where a block has all lines, of one
  AmxTiles tiles_;
  AmxFinish<Y> finish_;
};

}  // namespace

void multiply_bf16_by_amx(const PanelProduct& p) {
  if (p.ty == DType::kF32)
    Product<float, RowsOfX>(p, RowsOfX(p)).multiply();
  else
    Product<uint16_t, RowsOfX>(p, RowsOfX(p)).multiply();
}

void multiply_bf16_by_amx(const TransposedPanelProduct& p) {
  Product<float, ColumnsOfX>(product_of(p), ColumnsOfX(p)).multiply();
}

}  // namespace nmt::cpu
