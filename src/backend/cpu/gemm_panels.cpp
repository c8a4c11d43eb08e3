#include "backend/cpu/gemm_panels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/avx512.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/products.h"
#include "base/error.h"
#include "base/math.h"

// Only called where the processor has it.
#define NMT_PANELS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace nmt::cpu {

bool has_panel_products(DType t, int64_t k) {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_bf16) && !onednn_has(dnnl::cpu_isa::avx512_core_amx);
  return has && (t == DType::kF32 || (t == DType::kBF16 && k % 2 == 0));
}

int64_t panel_bytes(DType t, int64_t k) { return round_up(k * static_cast<int64_t>(size_of(t)), 64) * kPanel; }

namespace {

using namespace avx512;

constexpr int64_t kMeetRows = 256;  // rows of x that a panel meets before the next one
constexpr int64_t kSteps = 512;     // of a panel that are multiplied at a time: it stays in L2
constexpr int64_t kAhead = 16;      // rows before they are copied: far enough for memory

int64_t elements_of_step(DType t) { return kStepBytes / static_cast<int64_t>(size_of(t)); }

struct Tile {
  const std::byte* x;
  int64_t row_bytes, step_bytes;  // from one of x to the next
  int64_t steps;
  const std::byte* b;
  bool first_steps, last_steps;  // whether the sums begin with zeros, and end in y; else in `sums`
  float* sums;                   // [rows, kPanel]
  int64_t columns;
  DType ty;
  void* y;
  int64_t ldy;
  Epilogue epilogue;
};

template <bool kPairs>
NMT_PANELS inline __m512 multiply_add(__m512 sum, __m512i x, __m512i b) {
  if constexpr (kPairs)
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)b);
  else
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(b), sum);
}

// Storing some lanes costs more than storing all.
template <bool kWhole>
NMT_PANELS [[gnu::always_inline]] inline void store(__mmask16 lanes, __m512 v, float* y) {
  if constexpr (kWhole)
    _mm512_storeu_ps(y, v);
  else
    _mm512_mask_storeu_ps(y, lanes, v);
}

template <bool kWhole>
NMT_PANELS [[gnu::always_inline]] inline void store(__mmask16 lanes, __m512 v, uint16_t* y) {
  const auto rounded = (__m256i)_mm512_cvtneps_pbh(v);
  if constexpr (kWhole)
    _mm256_storeu_epi16(y, rounded);
  else
    _mm256_mask_storeu_epi16(y, lanes, rounded);
}

// The sums of a tile, of all its columns or some, become y. What the loops need of the tile is read before: for all
// that the compiler knows, a store to y changes it.
template <class Y, bool kWhole, int R>
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
      store<kWhole>(lanes, with_epilogue(e, floor, bias, sums[r][v], lanes, to), to);
    }
  }
}

// The loops over rows and vectors are unrolled early, else GCC keeps the sums in memory.
template <bool kPairs, int R>
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
  for (int64_t i = t.steps; i > 0; --i, x += t.step_bytes, b += kPanel * kStepBytes) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(b + v * kLine);
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
    whole ? finish<float, true>(t, sums) : finish<float, false>(t, sums);
  else
    whole ? finish<uint16_t, true>(t, sums) : finish<uint16_t, false>(t, sums);
}

// The rows of x that the next tile reads first.
NMT_PANELS void fetch_rows(const PanelProduct& p, int64_t row, int64_t step, int64_t steps) {
  for (int64_t r = row; r < row + kTileRows; ++r)
    for (int64_t i = 0; i < steps * kStepBytes; i += kLine) prefetch(p.x, (r * p.x_row + step) * kStepBytes + i);
}

template <bool kPairs>
constexpr std::array<void (*)(const Tile&), kTileRows> kTiles = {multiply_tile<kPairs, 1>, multiply_tile<kPairs, 2>,
                                                                 multiply_tile<kPairs, 3>, multiply_tile<kPairs, 4>,
                                                                 multiply_tile<kPairs, 5>, multiply_tile<kPairs, 6>};

}  // namespace

void multiply_panels(const PanelProduct& p) {
  const bool pairs = p.t == DType::kBF16;
  check((pairs ? p.k % 2 == 0 : p.t == DType::kF32) && (p.ty == DType::kF32 || p.ty == DType::kBF16),
        "a product of {} of {} columns to {}", name_of(p.t), p.k, name_of(p.ty));
  const auto& tiles = pairs ? kTiles<true> : kTiles<false>;
  const int64_t steps = p.k / elements_of_step(p.t), panel = panel_bytes(p.t, p.k);
  alignas(kLine) thread_local float sums[kMeetRows * kPanel];
  for (int64_t block = 0; block < p.m; block += kMeetRows) {
    const int64_t end = std::min(block + kMeetRows, p.m);
    for (int64_t column = 0; column < p.n; column += kPanel) {
      Epilogue e = p.epilogue;
      if (e.bias != nullptr) e.bias += column;
      for (int64_t step = 0; step < steps; step += kSteps) {
        const int64_t count = std::min(kSteps, steps - step);
        for (int64_t row = block; row < end; row += kTileRows) {
          const int64_t rows = std::min<int64_t>(kTileRows, end - row);
          if (column == 0 && p.x_step == 1) fetch_rows(p, row + kTileRows, step, count);
          tiles[static_cast<size_t>(rows - 1)](
              {.x = static_cast<const std::byte*>(p.x) + (row * p.x_row + step * p.x_step) * kStepBytes,
               .row_bytes = p.x_row * kStepBytes,
               .step_bytes = p.x_step * kStepBytes,
               .steps = count,
               .b = p.b + column / kPanel * panel + step * kPanel * kStepBytes,
               .first_steps = step == 0,
               .last_steps = step + count == steps,
               .sums = sums + (row - block) * kPanel,
               .columns = std::min(kPanel, p.n - column),
               .ty = p.ty,
               .y = offset(p.y, row * p.ldy + column, p.ty),
               .ldy = p.ldy,
               .epilogue = e});
        }
      }
    }
  }
}

namespace {

// One step of m columns: row 0 of x, for kBF16 beside it row 1 where there is one. Rows that are read later are fetched
// ahead: they lie too far apart for the processor to foresee them.
NMT_PANELS void copy_step(DType t, int64_t rows, int64_t m, const void* x, int64_t ldx, int32_t* to) {
  for (int64_t c = 0; c < m; c += kLanes) {
    const __mmask16 lanes = lanes_of(m - c);
    if (t == DType::kF32) {
      const float* row = static_cast<const float*>(x) + c;
      prefetch(row, kAhead * ldx * static_cast<int64_t>(sizeof *row));
      _mm512_mask_storeu_ps(to + c, lanes, _mm512_maskz_loadu_ps(lanes, row));
    } else {
      const uint16_t* row = static_cast<const uint16_t*>(x) + c;
      prefetch(row, kAhead * ldx * static_cast<int64_t>(sizeof *row));
      prefetch(row, (kAhead + 1) * ldx * static_cast<int64_t>(sizeof *row));
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, row));
      const __mmask16 second = rows > 1 ? lanes : __mmask16{0};
      const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(second, row + ldx));
      _mm512_mask_storeu_epi32(to + c, lanes, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

}  // namespace

void pack_panels(DType t, int64_t begin, int64_t end, int64_t k, int64_t rows, const void* x, int64_t ldx,
                 std::byte* packed) {
  const int64_t each = elements_of_step(t), used = divide_up(rows, each) * kPanel * kStepBytes, all = panel_bytes(t, k);
  for (int64_t column = begin; column < end; column += kPanel) {
    std::byte* panel = packed + column / kPanel * all;
    const int64_t zeros = end - column < kPanel ? 0 : used;  // from here on
    std::memset(panel + zeros, 0, static_cast<size_t>(all - zeros));
  }
  for (int64_t r = 0; r < rows; r += each)
    for (int64_t column = begin; column < end; column += kPanel)
      copy_step(t, rows - r, std::min(kPanel, end - column), offset(x, r * ldx + column - begin, t), ldx,
                reinterpret_cast<int32_t*>(packed + column / kPanel * all) + r / each * kPanel);
}

void columns_by_steps(DType t, int64_t m, int64_t k, int64_t rows, const void* x, int64_t ldx, void* steps) {
  const int64_t each = elements_of_step(t), used = divide_up(rows, each);
  std::memset(static_cast<int32_t*>(steps) + used * m, 0,
              static_cast<size_t>((divide_up(k, each) - used) * m * kStepBytes));
  for (int64_t r = 0; r < rows; r += each)
    copy_step(t, rows - r, m, offset(x, r * ldx, t), ldx, static_cast<int32_t*>(steps) + r / each * m);
}

}  // namespace nmt::cpu
