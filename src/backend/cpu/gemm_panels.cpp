#include "backend/cpu/gemm_panels.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/panel_tile.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/products.h"
#include "backend/cpu/scratch.h"
#include "base/error.h"
#include "base/math.h"

// For AVX512-BF16, which is used by its intrinsics alone: by tiles for processors that have it.
#define NMT_PANELS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace nmt::cpu {

bool widens_bf16() {
  static const bool pairs_are_fast = has_amx() || (has_avx512_bf16() && __builtin_cpu_is("amd"));
  return has_avx512() && !pairs_are_fast;
}

namespace {

using namespace avx512;

// A block of a product, whose operands stay in L2: so many rows of x and steps of their sums and, where there are more
// steps, columns of B.
constexpr int64_t kBlockRows = 256, kBlockSteps = 512, kBlockColumns = 512;
constexpr int64_t kAvx2BlockSteps = 256;  // half of the nearest cache for 16 columns
constexpr int64_t kAheadBytes = 2048;     // before they are widened: far enough for memory
constexpr int64_t kStepsAhead = 8;        // of a panel in L2 before they are multiplied

// The elements of pairs as float32: the first of each pair is the low one.
NMT_AVX512 inline __m512 firsts(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
NMT_AVX512 inline __m512 seconds(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000))));
}

template <bool kPairs>
NMT_PANELS inline __m512 multiply_add(__m512 sum, __m512i x, __m512i b) {
  if constexpr (kPairs)
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)b);
  else
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(b), sum);
}

// Storing some lanes costs more than storing all. kRounds: the processor rounds to bf16.
template <bool kRounds, bool kWhole>
NMT_PANELS [[gnu::always_inline]] inline void store(__mmask16 lanes, __m512 v, float* y) {
  if constexpr (kWhole)
    _mm512_storeu_ps(y, v);
  else
    _mm512_mask_storeu_ps(y, lanes, v);
}

template <bool kRounds, bool kWhole>
NMT_PANELS [[gnu::always_inline]] inline void store(__mmask16 lanes, __m512 v, uint16_t* y) {
  __m256i rounded;
  if constexpr (kRounds)
    rounded = (__m256i)_mm512_cvtneps_pbh(v);
  else
    rounded = to_bf16(v);
  if constexpr (kWhole)
    _mm256_storeu_epi16(y, rounded);
  else
    _mm256_mask_storeu_epi16(y, lanes, rounded);
}

// The sums of a tile, of all its columns or some, become y. What the loops need of the tile is read before: for all
// that the compiler knows, a store to y changes it.
template <class Y, bool kRounds, bool kWhole, int R>
NMT_PANELS [[gnu::always_inline]] inline void finish(const Tile& t, const __m512 (&sums)[R][kVectors]) {
  Y* const y = static_cast<Y*>(t.y);
  const Epilogue e = t.epilogue;
  const int64_t ldy = t.ldy, columns = t.columns;
  const __m512 floor = floor_of(e);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __mmask16 lanes = kWhole ? 0xFFFF : lanes_of(columns - v * kLanes);
    const __m512 bias = bias_of(e, v * kLanes, lanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      Y* const to = y + r * ldy + v * kLanes;
      store<kRounds, kWhole>(lanes, with_epilogue(e, floor, bias, sums[r][v], lanes, to), to);
    }
  }
}

// The loops over rows and vectors are unrolled early, else GCC keeps the sums in memory. kAhead: lines of what comes
// after that a step fetches.
template <bool kPairs, bool kRounds, int R, int kAhead>
NMT_PANELS void multiply_tile(const Tile& t) {
  const auto size = static_cast<int64_t>(size_of(t.ty));
  if (t.last_steps) {
    for (int r = 0; r < R; ++r)
      for (int64_t i = 0; i < kPanel * size; i += kLine) prefetch(t.y, r * t.ldy * size + i);
  }
  __m512 sums[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = t.first_steps ? _mm512_setzero_ps() : _mm512_loadu_ps(t.sums + r * kPanel + v * kLanes);
  const std::byte *x = t.x, *b = t.b;
  const int64_t row = t.row_bytes;
  const Ahead ahead = t.ahead;
  int64_t fetched = 0;
  for (int64_t i = t.steps; i > 0; --i, x += t.step_bytes, b += kPanel * kStepBytes) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      columns[v] = _mm512_loadu_si512(b + v * kLine);
      prefetch(b, kStepsAhead * kPanel * kStepBytes + v * kLine);
      if (v < kAhead) prefetch_far(ahead.share, fetched + v * kLine);
    }
    fetched += ahead.bytes;
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t step;
      std::memcpy(&step, x + r * row, sizeof step);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = multiply_add<kPairs>(sums[r][v], _mm512_set1_epi32(step), columns[v]);
    }
  }
  if (!t.last_steps) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(t.sums + r * kPanel + v * kLanes, sums[r][v]);
    return;
  }
  const bool whole = t.columns >= kPanel;
  if (t.ty == DType::kF32)
    whole ? finish<float, kRounds, true>(t, sums) : finish<float, kRounds, false>(t, sums);
  else
    whole ? finish<uint16_t, kRounds, true>(t, sums) : finish<uint16_t, kRounds, false>(t, sums);
}

template <bool kPairs, bool kRounds, int R>
void multiply_tile(const Tile& t) {
  if (t.ahead.share == nullptr) return multiply_tile<kPairs, kRounds, R, 0>(t);
  t.ahead.bytes <= kLine ? multiply_tile<kPairs, kRounds, R, 1>(t) : multiply_tile<kPairs, kRounds, R, kVectors>(t);
}

// With x by rows (x_step is 1) or by steps (x_row is 1).
struct StepProduct : PanelProduct {
  int64_t x_row, x_step;  // from a row of x, and from a step, to the next, in steps
};

// The rows of x that the next tile reads first.
void fetch_rows(const StepProduct& p, int64_t row, int64_t step, int64_t steps) {
  for (int64_t r = row; r < row + kTileRows; ++r)
    for (int64_t i = 0; i < steps * kStepBytes; i += kLine) prefetch(p.x, (r * p.x_row + step) * kStepBytes + i);
}

// Pairs [steps, kPanel] become float32 [2 * steps, kPanel].
NMT_AVX512 void widen_panel(const std::byte* pairs, int64_t steps, float* to) {
  for (int64_t i = 0; i < steps; ++i, to += 2 * kPanel)
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* line = pairs + (i * kVectors + v) * kLine;
      prefetch(line, kAheadBytes);
      const __m512i pair = _mm512_loadu_si512(line);
      _mm512_store_ps(to + v * kLanes, firsts(pair));
      _mm512_store_ps(to + kPanel + v * kLanes, seconds(pair));
    }
}

// Rows of k elements of bf16 become float32 [rows, kBlockSteps].
NMT_AVX512 void widen_rows(const std::byte* x, int64_t row_bytes, int64_t rows, int64_t k, float* to) {
  for (int64_t r = 0; r < rows; ++r, x += row_bytes, to += kBlockSteps) {
    const auto* row = reinterpret_cast<const uint16_t*>(x);
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) _mm512_store_ps(to + i, load(row + i));
    if (i < k) _mm512_store_ps(to + i, load(lanes_of(k - i), row + i));
  }
}

template <bool kPairs, bool kRounds>
constexpr Tiles kTiles = {multiply_tile<kPairs, kRounds, 1>, multiply_tile<kPairs, kRounds, 2>,
                          multiply_tile<kPairs, kRounds, 3>, multiply_tile<kPairs, kRounds, 4>,
                          multiply_tile<kPairs, kRounds, 5>, multiply_tile<kPairs, kRounds, 6>};

struct Block {
  int64_t row, end_row, column, end_column, step, steps;
  bool last_steps, widen;
  PanelSteps after;  // that the next block begins with, if it has these rows
  const Tiles& tiles;
  // Memory of the thread: the sums of the block's panels [kBlockRows, kPanel] where it has not all steps; its rows of
  // x and a panel as float32, kBlockSteps of either.
  float *sums, *wide_x, *wide_b;
};

// So many steps at most from this one on; none past the last column.
PanelSteps steps_of(const PanelProduct& p, int64_t column, int64_t step, int64_t most) {
  if (column >= p.n) return {};
  const ColumnGroups g = groups_of_panel(p.t, p.k);
  return {p.b + g.offset_of(column) + step * g.step_bytes(), std::min(most, p.k / elements_of_step(p.t) - step),
          g.step_bytes()};
}

void multiply_panel(const StepProduct& p, const Block& block, int64_t column) {
  const ColumnGroups g = groups_of_panel(p.t, p.k);
  const std::byte* const b = steps_of(p, column, block.step, block.steps).at;
  const PanelSteps next =
      column + kPanel < block.end_column ? steps_of(p, column + kPanel, block.step, block.steps) : block.after;
  if (block.widen) widen_panel(b, block.steps, block.wide_b);
  Epilogue e = p.epilogue;
  if (e.bias != nullptr) e.bias += column;
  const bool first_panel = column == block.column;
  for (int64_t row = block.row; row < block.end_row; row += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, block.end_row - row);
    Tile tile{.x = static_cast<const std::byte*>(p.x) + (row * p.x_row + block.step * p.x_step) * kStepBytes,
              .row_bytes = p.x_row * kStepBytes,
              .step_bytes = p.x_step * kStepBytes,
              .steps = block.steps,
              .b = b,
              .group_bytes = g.bytes(),
              .ahead = block.widen ? Ahead() : Ahead::of(next, row - block.row, block.end_row - block.row),
              .first_steps = block.step == 0,
              .last_steps = block.last_steps,
              .sums = block.sums == nullptr
                          ? nullptr
                          : block.sums + (column - block.column) * kBlockRows + (row - block.row) * kPanel,
              .columns = std::min(kPanel, p.n - column),
              .ty = p.ty,
              .y = offset(p.y, row * p.ldy + column, p.ty),
              .ldy = p.ldy,
              .epilogue = e};
    if (first_panel && p.x_step == 1) fetch_rows(p, row + kTileRows, block.step, block.steps);
    if (block.widen) {
      float* x = block.wide_x + (row - block.row) * kBlockSteps;
      if (first_panel) widen_rows(tile.x, tile.row_bytes, rows, 2 * block.steps, x);
      tile.x = reinterpret_cast<const std::byte*>(x);
      tile.row_bytes = kBlockSteps * kStepBytes;
      tile.steps = 2 * block.steps;
      tile.b = reinterpret_cast<const std::byte*>(block.wide_b);
    }
    block.tiles[static_cast<size_t>(rows - 1)](tile);
  }
}

void multiply_steps(const StepProduct& p) {
  const bool bf16 = p.t == DType::kBF16, widen = bf16 && widens_bf16();
  const int64_t steps = p.k / elements_of_step(p.t);
  // Widened, a step is two.
  const int64_t most_steps = !has_avx512() ? kAvx2BlockSteps : widen ? kBlockSteps / 2 : kBlockSteps;
  const bool parts = steps > most_steps;
  const int64_t columns = parts ? kBlockColumns : round_up(p.n, kPanel);
  const int64_t of_sums = parts ? kBlockRows * kBlockColumns : 0, of_x = widen ? kBlockRows * kBlockSteps : 0,
                of_b = widen ? kBlockSteps * kPanel : 0;
  const Tiles& tiles = !has_avx512()       ? kAvx2Tiles
                       : bf16 && !widen    ? kTiles<true, true>
                       : has_avx512_bf16() ? kTiles<false, true>
                                           : kTiles<false, false>;
  thread_local Scratch scratch;
  auto* sums = reinterpret_cast<float*>(scratch.get(static_cast<size_t>(of_sums + of_x + of_b) * sizeof(float)));
  for (int64_t row = 0; row < p.m; row += kBlockRows)
    for (int64_t column = 0; column < p.n; column += columns)
      for (int64_t step = 0; step < steps; step += most_steps) {
        const bool last_steps = steps - step <= most_steps;
        const Block block{.row = row,
                          .end_row = std::min(row + kBlockRows, p.m),
                          .column = column,
                          .end_column = std::min(column + columns, p.n),
                          .step = step,
                          .steps = std::min(most_steps, steps - step),
                          .last_steps = last_steps,
                          .widen = widen,
                          .after = last_steps ? steps_of(p, column + columns, 0, most_steps)
                                              : steps_of(p, column, step + most_steps, most_steps),
                          .tiles = tiles,
                          .sums = parts ? sums : nullptr,
                          .wide_x = sums + of_sums,
                          .wide_b = sums + of_sums + of_x};
        for (int64_t panel = column; panel < block.end_column; panel += kPanel) multiply_panel(p, block, panel);
      }
}

template <class Product>
void multiply_panels_of(const Product& p) {
  if (!has_amx()) return multiply_panels_by_vectors(p);
  p.t == DType::kBF16 ? multiply_bf16_by_amx(p) : multiply_f32_by_amx(p);
}

}  // namespace

void multiply_panels_by_vectors(const PanelProduct& p) { multiply_steps({p, p.k / elements_of_step(p.t), 1}); }

void multiply_panels_by_vectors(const TransposedPanelProduct& p) {
  thread_local Scratch scratch;
  PanelProduct product = product_of(p);
  if (!has_avx512()) {
    // As rows: a tile goes through its columns four times, which the nearest cache holds only where they are dense.
    // Rows a power of two apart would share few sets of it.
    const int64_t row = p.k + line_elements(DType::kF32);
    auto* rows = reinterpret_cast<float*>(scratch.get(static_cast<size_t>(p.m * row) * sizeof(float)));
    transpose(p.rows, p.m, static_cast<const float*>(p.x), p.ldx, rows, row);
    for (int64_t r = 0; r < p.m; ++r) std::fill_n(rows + r * row + p.rows, p.k - p.rows, 0.f);
    product.x = rows;
    return multiply_steps({product, row, 1});
  }
  const ColumnGroups all{.columns = round_up(p.m, kLanes), .steps = groups_of_panel(p.t, p.k).steps};
  std::byte* columns = scratch.get(static_cast<size_t>(all.bytes()));
  group_columns(p.t, all, p.tx, p.rows, p.m, p.x, p.ldx, columns);
  product.x = columns;
  multiply_steps({product, 1, all.columns});
}

void multiply_panels(const PanelProduct& p) {
  const bool bf16 = p.t == DType::kBF16;
  check(p.k > 0 && (bf16 ? p.k % 2 == 0 : p.t == DType::kF32) && (p.ty == DType::kF32 || p.ty == DType::kBF16),
        "a product of {} of {} columns to {}", name_of(p.t), p.k, name_of(p.ty));
  multiply_panels_of(p);
}

void multiply_panels(const TransposedPanelProduct& p) {
  check(p.t == type_of_copies(p.tx), "columns of {} in panels of {}", name_of(p.tx), name_of(p.t));
  check(p.k > 0 && p.k % elements_of_step(p.t) == 0 && p.rows <= p.k, "{} rows of {}", p.rows, p.k);
  multiply_panels_of(p);
}

}  // namespace nmt::cpu
