#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/amx.h"
#include "backend/cpu/amx_blocks.h"
#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/products.h"
#include "backend/cpu/scratch.h"
#include "base/error.h"
#include "base/math.h"

// AMX multiplies no float32, but bf16 at sixteen times the rate. A number of float32 is the sum of three of bf16, each
// the nearest to what those before have left: their 3 x 8 bits are its 24. Of the nine products of two numbers' parts
// those are left out whose parts' places add up to three or more: together at most 2^-24 of the whole. (Henry, Tang and
// Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019.)
namespace nmt::cpu {
namespace {

using namespace avx512;

// A block of a product: its parts of x and B, and sums that wait for the next lines, stay in L2.
constexpr int64_t kBlockRows = 256, kBlockColumns = 512, kBlockLines = 4;
// The same of one tile's rows: B is split as fast as it comes from memory, and its parts stay in L1.
constexpr int64_t kTileColumns = kPanel, kTileLines = 2;
constexpr int64_t kLineElements = 2 * kLanes;      // of a line of a row's part: pairs of x[i] and x[kLanes + i]
constexpr int64_t kSums = kAmxRows * kAmxColumns;  // of a tile
constexpr int64_t kRowsPart = kAmxRows * kLine;    // bytes of a part of a line of a tile's rows
constexpr int64_t kRowsBytes = kBlockLines * kAmxParts * kRowsPart;        // of all parts of a tile's rows,
constexpr int64_t kGroupBytes = kBlockLines * kAmxParts * kAmxTileBytes;   // of a group of columns,
constexpr int64_t kColumnsBytes = kBlockColumns / kAmxTile * kGroupBytes;  // of a block's
constexpr int64_t kElementBytes = sizeof(float);
constexpr int64_t kRowsAhead = 2;  // of x before they are split

NMT_AMX [[gnu::always_inline]] inline __m512 nearest_bf16(__m512 v) {
  const __m512i half = _mm512_set1_epi32(0x8000), kept = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(v), half), kept));
}

// Of numbers of bf16 but for the last parts of the least, which lose what bf16 does not have: below 2^-133. (Tiles take
// parts below 2^-126 for zero.)
NMT_AMX [[gnu::always_inline]] inline void store_pairs(__m512 low, __m512 high, std::byte* to) {
  const __m512i shifted = _mm512_srli_epi32(_mm512_castps_si512(low), 16);
  _mm512_store_si512(to, _mm512_mask_mov_epi16(shifted, 0xAAAAAAAA, _mm512_castps_si512(high)));
}

// Stores the parts of pairs of numbers, those of the same place `stride` bytes after those before. Returns the pairs
// that have none: of infinities and NaN, and where the nearest number of bf16 is infinite.
NMT_AMX [[gnu::always_inline]] inline __mmask16 store_parts(__m512 low, __m512 high, std::byte* to, int64_t stride) {
#pragma GCC unroll 2
  for (int part = 0; part < kAmxParts - 1; ++part, to += stride) {
    const __m512 low_part = nearest_bf16(low), high_part = nearest_bf16(high);
    store_pairs(low_part, high_part, to);
    low = _mm512_sub_ps(low, low_part);
    high = _mm512_sub_ps(high, high_part);
  }
  store_pairs(low, high, to);
  return _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q);
}

// ---- x and B ------------------------------------------------------------------------------------------------------

// Both are split in units, some beside each line of the products before. split() stores the parts of one, of a tile's
// rows and lines or of a block's groups of columns and lines, and returns whether all numbers have them.

class RowsOfX {
 public:
  explicit RowsOfX(const PanelProduct& p) : p_(p) {}

  static int64_t units(int64_t rows, int64_t) { return rows; }

  NMT_AMX bool split(const AmxPlace& at, int64_t, int64_t lines, int64_t unit, std::byte* to) const {
    const float* x = static_cast<const float*>(p_.x) + (at.row + unit) * p_.k + at.line * kLineElements;
    int64_t left = p_.k - at.line * kLineElements;
    to += unit * kLine;
    __mmask16 without = 0;
    for (int64_t l = 0; l < lines; ++l, left -= kLineElements, x += kLineElements, to += kAmxParts * kRowsPart) {
      prefetch(x, kRowsAhead * p_.k * kElementBytes);
      prefetch(x + kLanes, kRowsAhead * p_.k * kElementBytes);
      without |= store_parts(load(lanes_of(left), x), load(lanes_of(left - kLanes), x + kLanes), to, kRowsPart);
    }
    return without == 0;
  }

  void multiply_by_vectors(int64_t row, int64_t column, int64_t m, int64_t n) const {
    PanelProduct p = p_;
    p.m = m;
    p.n = n;
    p.x = offset(p.x, row * p.k, p.t);
    p.b += column / kPanel * panel_bytes(p.t, p.k);
    p.y = offset(p.y, row * p.ldy + column, p.ty);
    if (p.epilogue.bias != nullptr) p.epilogue.bias += column;
    multiply_panels_by_vectors(p);
  }

 private:
  const PanelProduct& p_;
};

// The columns of x [rows, m] as rows.
class ColumnsOfX {
 public:
  explicit ColumnsOfX(const TransposedPanelProduct& p) : p_(p) {}

  static int64_t units(int64_t columns, int64_t lines) { return divide_up(columns, kLanes) * lines; }

  NMT_AMX bool split(const AmxPlace& at, int64_t columns, int64_t lines, int64_t unit, std::byte* to) const {
    const int64_t l = unit % lines, c = unit / lines * kLanes, row = (at.line + l) * kLineElements;
    const float* x = static_cast<const float*>(p_.x) + row * p_.ldx + at.row + c;
    const __mmask16 lanes = lanes_of(columns - c);
    Vectors low, high;
#pragma GCC unroll 16
    for (int64_t r = 0; r < kLanes; ++r) {
      low[r] = _mm512_castps_si512(load(row + r < p_.rows ? lanes : 0, x + r * p_.ldx));
      high[r] = _mm512_castps_si512(load(row + kLanes + r < p_.rows ? lanes : 0, x + (kLanes + r) * p_.ldx));
      prefetch(x, (kLineElements + r) * p_.ldx * kElementBytes);
      prefetch(x, (kLineElements + kLanes + r) * p_.ldx * kElementBytes);
    }
    transpose(low);
    transpose(high);
    to += l * kAmxParts * kRowsPart + c * kLine;
    __mmask16 without = 0;
#pragma GCC unroll 16
    for (int64_t r = 0; r < kLanes; ++r, to += kLine)
      without |= store_parts(_mm512_castsi512_ps(low[r]), _mm512_castsi512_ps(high[r]), to, kRowsPart);
    return without == 0;
  }

  void multiply_by_vectors(int64_t row, int64_t column, int64_t m, int64_t n) const {
    TransposedPanelProduct p = p_;
    p.m = m;
    p.n = n;
    p.x = offset(p.x, row, p.tx);
    p.b += column / kPanel * panel_bytes(p.t, p.k);
    p.y += row * p.ldy + column;
    multiply_panels_by_vectors(p);
  }

 private:
  const TransposedPanelProduct& p_;
};

class ColumnsOfB {
 public:
  explicit ColumnsOfB(const PanelProduct& p)
      : b_(reinterpret_cast<const float*>(p.b)), steps_(groups_of_panel(p.t, p.k).steps) {}

  static int64_t units(int64_t groups, int64_t lines) { return divide_up(groups, kGroups) * lines * kLanes; }

  NMT_AMX bool split(const AmxPlace& at, int64_t groups, int64_t lines, int64_t unit, std::byte* to) const {
    const int64_t pair = unit % kLanes, l = unit / kLanes % lines, panel = unit / kLanes / lines;
    const int64_t step = (at.line + l) * kLineElements + pair;
    const float* b = b_ + ((at.column / kPanel + panel) * steps_ + step) * kPanel;
    const __mmask16 second = step + kLanes < steps_ ? 0xFFFF : 0;
    to += panel * kGroups * kGroupBytes + l * kAmxParts * kAmxTileBytes + pair * kLine;
    __mmask16 without = 0;
    for (int64_t g = 0; g < std::min(kGroups, groups - panel * kGroups); ++g, b += kLanes, to += kGroupBytes) {
      prefetch(b, kLineElements * kPanel * kElementBytes);
      prefetch(b, (kLineElements + kLanes) * kPanel * kElementBytes);
      without |= store_parts(_mm512_loadu_ps(b), load(second, b + kLanes * kPanel), to, kAmxTileBytes);
    }
    return without == 0;
  }

 private:
  static constexpr int64_t kGroups = kPanel / kLanes;  // of a panel

  const float* b_;
  int64_t steps_;  // of a panel
};

// The parts of rows or columns that are multiplied, and those of the next, which are split beside that.
template <class Source>
class Splitting {
 public:
  // Memory for both.
  Splitting(const Source& source, std::byte* parts, std::byte* next_parts)
      : source_(source), parts_(parts), next_parts_(next_parts) {}

  // What was next is multiplied from now on; the next are so many rows, or groups of columns, in so many calls of
  // go_on().
  void begin(const AmxPlace& next, int64_t extent, int64_t lines, int64_t calls) {
    std::swap(parts_, next_parts_);
    complete_ = next_complete_;
    next_complete_ = true;
    next_ = next;
    extent_ = extent;
    lines_ = lines;
    unit_ = due_ = 0;
    units_ = Source::units(extent, lines);
    calls_ = calls;
  }

  NMT_AMX [[gnu::always_inline]] void go_on() {
    for (due_ += units_; due_ >= calls_; due_ -= calls_, ++unit_)
      next_complete_ = source_.split(next_, extent_, lines_, unit_, next_parts_) && next_complete_;
  }

  const Source& source() const { return source_; }
  const std::byte* parts() const { return parts_; }
  bool complete() const { return complete_; }  // all numbers have parts

 private:
  Source source_;
  std::byte *parts_, *next_parts_;
  bool complete_ = true, next_complete_ = true;
  AmxPlace next_{};
  int64_t extent_ = 0, lines_ = 0, unit_ = 0, units_ = 0, calls_ = 1;
  int64_t due_ = 0;  // of units, in parts of 1 / calls_
};

// ---- products -----------------------------------------------------------------------------------------------------

constexpr int64_t kTiles = kBlockRows / kAmxRows, kHalves = kBlockColumns / kAmxColumns;  // of a block, at most

AmxBlocks blocks_of(const PanelProduct& p) {
  const bool one_tile = p.m <= kAmxRows;
  return {p.m,
          p.n,
          divide_up(p.k, kLineElements),
          {kBlockRows, one_tile ? kTileColumns : kBlockColumns, one_tile ? kTileLines : kBlockLines}};
}

// Memory of the thread: a tile's parts of x and a block's of B, those that are multiplied and the next, and sums.
std::byte* scratch_of_parts(const AmxBlocks& b) {
  const int64_t sums = b.lines > b.size.line ? kTiles * kHalves : 1;
  thread_local Scratch scratch;
  return scratch.get(static_cast<size_t>(2 * (kRowsBytes + kColumnsBytes) + sums * kSums * kElementBytes));
}

// Of x's rows (RowsOfX or ColumnsOfX).
template <class Y, class X>
class Product {
 public:
  Product(const PanelProduct& p, X x)
      : p_(p),
        blocks_(blocks_of(p)),
        memory_(scratch_of_parts(blocks_)),
        rows_(x, memory_, memory_ + kRowsBytes),
        columns_(ColumnsOfB(p), memory_ + 2 * kRowsBytes, memory_ + 2 * kRowsBytes + kColumnsBytes),
        sums_(reinterpret_cast<float*>(memory_ + 2 * (kRowsBytes + kColumnsBytes))) {}

  NMT_AMX void multiply() {
    AmxPlace at{};
    begin_columns(at, 1);
    begin_rows(at, 1);
    columns_.go_on();
    rows_.go_on();
    for (; at.row < p_.m; at = blocks_.after(at)) multiply_block(at);
    finish_(0, kAmxRows);
  }

 private:
  // The next are those of a tile, and of a block; none past the end.
  void begin_rows(const AmxPlace& at, int64_t calls) {
    rows_.begin(at, std::clamp<int64_t>(p_.m - at.row, 0, kAmxRows), blocks_.lines_at(at), calls);
  }
  void begin_columns(const AmxPlace& at, int64_t calls) {
    const int64_t columns = at.row < p_.m ? blocks_.columns_at(at) : 0;
    columns_.begin(at, 2 * divide_up(columns, kAmxColumns), blocks_.lines_at(at), calls);
  }

  NMT_AMX void multiply_block(const AmxPlace& at) {
    const AmxPlace next = blocks_.after(at);
    const int64_t rows = blocks_.rows_at(at), columns = blocks_.columns_at(at), lines = blocks_.lines_at(at);
    const int64_t tiles = divide_up(rows, kAmxRows), halves = divide_up(columns, kAmxColumns);
    const bool last_lines = at.line + lines == blocks_.lines, all_lines = lines == blocks_.lines;
    const int64_t turns = kAmxTurns * lines, rows_of_turn = divide_up(kAmxRows, turns);
    begin_columns(next, tiles * halves * turns);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = at.row + tile * kAmxRows, tile_rows = std::min(kAmxRows, p_.m - row);
      begin_rows(tile + 1 < tiles ? AmxPlace{row + kAmxRows, at.column, at.line} : next, halves * turns);
      bool& by_tiles = by_tiles_[static_cast<size_t>(tile)];
      by_tiles = (at.line == 0 || by_tiles) && rows_.complete() && columns_.complete();
      tiles_.configure(tile_rows);
      for (int64_t half = 0; half < halves; ++half) {
        float* const sums = sums_ + (all_lines ? 0 : half * kTiles + tile) * kSums;
        const auto finish = AmxFinish<Y>::of(p_, row, at.column + half * kAmxColumns, tile_rows, sums);
        const bool finishes = last_lines && by_tiles;
        const AmxFetch fetch_y = finishes ? finish.fetch(rows_of_turn) : AmxFetch{};
        const auto meanwhile = [&](int64_t i) NMT_AMX __attribute__((always_inline)) {
          finish_(i * rows_of_turn, (i + 1) * rows_of_turn);
          rows_.go_on();
          columns_.go_on();
          fetch_y(i);
        };
        tiles_.multiply<AmxNumbers::kF32, AmxStays::kX>({.lines = lines,
                                                         .x = rows_.parts(),
                                                         .row_bytes = kLine,
                                                         .line_bytes = kAmxParts * kRowsPart,
                                                         .b = columns_.parts() + 2 * half * kGroupBytes,
                                                         .group_bytes = kGroupBytes,
                                                         .add = at.line > 0,
                                                         .sums = sums},
                                                        meanwhile);
        finish_ = finishes ? finish : AmxFinish<Y>{};
      }
      if (last_lines && !by_tiles) rows_.source().multiply_by_vectors(row, at.column, tile_rows, columns);
    }
  }

  const PanelProduct& p_;
  AmxBlocks blocks_;
  std::byte* memory_;
  Splitting<X> rows_;                    // of a tile
  Splitting<ColumnsOfB> columns_;        // of a block
  float* sums_;                          // of the tiles of a block or, where a block has all lines, of one
  std::array<bool, kTiles> by_tiles_{};  // the tiles of a block all of whose numbers have had parts
  AmxTiles tiles_;
  AmxFinish<Y> finish_;
};

}  // namespace

void multiply_f32_by_amx(const PanelProduct& p) {
  if (p.ty == DType::kF32)
    Product<float, RowsOfX>(p, RowsOfX(p)).multiply();
  else
    Product<uint16_t, RowsOfX>(p, RowsOfX(p)).multiply();
}

void multiply_f32_by_amx(const TransposedPanelProduct& p) {
  check(p.tx == DType::kF32, "columns of {} in parts", name_of(p.tx));
  Product<float, ColumnsOfX>(product_of(p), ColumnsOfX(p)).multiply();
}

}  // namespace nmt::cpu
