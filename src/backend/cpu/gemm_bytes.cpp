#include "backend/cpu/gemm_bytes.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx.h"
#include "backend/cpu/amx_blocks.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/byte_tile.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/products.h"
#include "base/error.h"
#include "base/math.h"

// Only called where the processor has it.
#define NMT_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

namespace nmt::cpu {

namespace {

using namespace avx512;

// Fewer rows wait for B from memory: more of it is under way where vectors are loaded, not tiles.
constexpr int64_t kFewestRowsByAmx = 7;

// kAhead: lines that a step fetches.
template <int R, int kAhead>
NMT_VNNI void multiply_tile(const ByteTile& t) {
  const Ahead ahead = t.ahead;
  const int64_t vector_bytes = t.groups.offset_of(kLanes), step_bytes = t.groups.step_bytes();
  __m512i sums[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_si512();
  const uint8_t* x = t.x;
  const std::byte* b = t.b;
  const int64_t row = t.row_bytes;
  int64_t fetched = 0;
  for (int64_t i = divide_up(t.k, kStepBytes); i > 0; --i, x += kStepBytes, b += step_bytes) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      columns[v] = _mm512_loadu_si512(b + v * vector_bytes);
      if (v < kAhead) prefetch_far(ahead.share, fetched + v * vector_bytes);
    }
    fetched += ahead.bytes;
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      std::memcpy(&four, x + r * row, sizeof four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], _mm512_set1_epi32(four), columns[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_si512(t.sums + r * kPanel + v * kLanes, sums[r][v]);
}

template <int R>
void multiply_tile(const ByteTile& t) {
  if (t.ahead.share == nullptr) return multiply_tile<R, 0>(t);
  const bool one_is_enough = t.groups.columns == kPanel && t.ahead.bytes <= kLine;
  one_is_enough ? multiply_tile<R, 1>(t) : multiply_tile<R, kVectors>(t);
}

constexpr ByteTiles kVnniTiles = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                  multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

void multiply_by_vectors(const ByteProduct& p) {
  const ByteTiles& tiles = has_vnni() ? kVnniTiles : kAvx2ByteTiles;
  const int64_t row_bytes = bytes_of_row(p.k);
  const ColumnGroups groups = groups_of_panel(DType::kI8, p.k);
  alignas(kLine) int32_t sums[kTileRows * kPanel];
  for (int64_t column = p.begin; column < p.end; column += kPanel) {
    const int64_t columns = std::min(kPanel, p.end - column);
    const std::byte* const b = p.packed + groups.offset_of(column);
    const PanelSteps next = column + kPanel < p.end ? PanelSteps{p.packed + groups.offset_of(column + kPanel),
                                                                 row_bytes / kStepBytes, groups.step_bytes()}
                                                    : PanelSteps();
    const float* const bias = p.epilogue.bias == nullptr ? nullptr : p.epilogue.bias + column - p.begin;
    for (int64_t row = 0; row < p.m; row += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, p.m - row);
      tiles[static_cast<size_t>(rows - 1)]({.x = p.q + row * row_bytes,
                                            .row_bytes = row_bytes,
                                            .k = p.k,
                                            .b = b,
                                            .groups = groups,
                                            .columns = columns,
                                            .ahead = Ahead::of(next, row, p.m),
                                            .sums = sums});
      dequantise(p.ty, rows, columns, sums, kPanel, p.rows + row, p.scale + column, p.sum + column, bias,
                 p.epilogue.activation == Activation::kRelu, offset(p.y, row * p.ldy + column - p.begin, p.ty), p.ldy);
    }
  }
}

// What sums of a row and 16 columns mean, with bias and activation. NaN stays NaN.
NMT_AMX [[gnu::always_inline]] inline __m512 meaning(__m512i sums, const RowScale& row, __m512 scale, __m512 sum,
                                                     __m512 bias, __m512 floor) {
  const __m512 scaled = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(row.step)), scale);
  return _mm512_max_ps(floor, _mm512_add_ps(_mm512_fmadd_ps(_mm512_set1_ps(row.low), sum, scaled), bias));
}

// What a tile of sums [kAmxRows, kAmxColumns] means becomes some rows beside each line of the next product. To bf16 the
// processor rounds them (as RoundedBf16 in simd-inl.h).
template <class Y>
struct FinishTile {
  const ByteProduct& p;
  const int32_t* sums;
  int64_t row = 0, rows = 0, column = 0;

  NMT_AMX [[gnu::always_inline]] void operator()(int64_t begin, int64_t end) const {
    end = std::min(rows, end);
    if (begin >= end) return;
    const int64_t next = column + kLanes;
    const __mmask16 low = lanes_of(p.end - column), high = lanes_of(p.end - next);
    const __m512 floor = floor_of(p.epilogue);
    const __m512 low_scale = load(low, p.scale + column), high_scale = load(high, p.scale + next);
    const __m512 low_sum = load(low, p.sum + column), high_sum = load(high, p.sum + next);
    const __m512 low_bias = bias_of(p.epilogue, column - p.begin, low),
                 high_bias = bias_of(p.epilogue, next - p.begin, high);
    Y* y = static_cast<Y*>(p.y) + (row + begin) * p.ldy + column - p.begin;
    for (int64_t r = begin; r < end; ++r, y += p.ldy) {
      const RowScale& scale = p.rows[row + r];
      const int32_t* from = sums + r * kAmxColumns;
      store_amx_row(low, high, meaning(_mm512_load_si512(from), scale, low_scale, low_sum, low_bias, floor),
                    meaning(_mm512_load_si512(from + kLanes), scale, high_scale, high_sum, high_bias, floor), y);
    }
  }
};

// All rows by half a panel, which stays in the nearest cache where it is short enough, then back by the next half: B is
// read from memory once, and all tiles' products together fetch the next half of it.
template <class Y>
NMT_AMX void multiply_by_amx(const ByteProduct& p) {
  const int64_t row_bytes = bytes_of_row(p.k), group_bytes = groups_of_panel(DType::kI8, p.k).bytes(),
                lines = divide_up(p.k, kLine);
  const int64_t halves = divide_up(p.end - p.begin, kAmxColumns), row_tiles = divide_up(p.m, kAmxRows);
  const auto* const q = reinterpret_cast<const std::byte*>(p.q);
  const std::byte* const b = p.packed + p.begin / kAmxTile * group_bytes;
  const int64_t rows_of_line = divide_up(kAmxRows, lines);
  alignas(kLine) int32_t sums[kAmxRows * kAmxColumns];
  AmxTiles tiles;
  FinishTile<Y> finish{.p = p, .sums = sums};
  for (int64_t half = 0; half < halves; ++half) {
    const std::byte* const columns = b + 2 * half * group_bytes;
    for (int64_t tile = 0; tile < row_tiles; ++tile) {
      const int64_t row = (half % 2 == 0 ? tile : row_tiles - 1 - tile) * kAmxRows,
                    rows = std::min(kAmxRows, p.m - row);
      const AmxFetch next_b =
          half + 1 < halves ? part_of_groups(columns + 2 * group_bytes, group_bytes, tile, row_tiles) : AmxFetch{};
      tiles.configure(rows);
      const auto meanwhile = [&](int64_t i) NMT_AMX __attribute__((always_inline)) {
        finish(i * rows_of_line, (i + 1) * rows_of_line);
        next_b(i);
      };
      tiles.multiply<AmxNumbers::kBytes, AmxStays::kB>({.lines = lines,
                                                        .x = q + row * row_bytes,
                                                        .row_bytes = row_bytes,
                                                        .line_bytes = kLine,
                                                        .b = columns,
                                                        .group_bytes = group_bytes,
                                                        .add = false,
                                                        .sums = sums},
                                                       meanwhile);
      finish.row = row;
      finish.rows = rows;
      finish.column = p.begin + half * kAmxColumns;
    }
  }
  finish(0, kAmxRows);
}

}  // namespace

// An odd number of lines for AMX: rows a power of two apart would share few sets of the cache.
int64_t bytes_of_row(int64_t k) {
  return has_amx() ? (divide_up(k, kLine) | 1) * kLine : round_up(k, has_vnni() ? 4 : 8);
}

void pack_bytes(int64_t begin, int64_t end, int64_t k, const int8_t* q, std::byte* packed) {
  if (k == 0) return;
  const ColumnGroups g = groups_of_panel(DType::kI8, k);
  const int64_t panel = panel_bytes(DType::kI8, k);
  std::memset(packed + begin / kPanel * panel, 0, static_cast<size_t>(divide_up(end - begin, kPanel) * panel));
  for (int64_t column = begin; column < end; ++column, q += k) {
    std::byte* to = packed + g.offset_of(column);
    for (int64_t i = 0; i < k; i += kStepBytes, to += g.step_bytes())
      std::memcpy(to, q + i, static_cast<size_t>(std::min(kStepBytes, k - i)));
  }
}

void multiply_bytes(const ByteProduct& p) {
  check(p.ty == DType::kF32 || p.ty == DType::kBF16, "a product of bytes to {}", name_of(p.ty));
  check(p.epilogue.held == Held::kNothing, "a product of bytes takes nothing from what y holds");
  if (!has_amx() || p.k == 0 || p.m < kFewestRowsByAmx) return multiply_by_vectors(p);
  p.ty == DType::kF32 ? multiply_by_amx<float>(p) : multiply_by_amx<uint16_t>(p);
}

}  // namespace nmt::cpu
