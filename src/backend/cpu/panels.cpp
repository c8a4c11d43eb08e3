#include "backend/cpu/panels.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/prefetch.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt::cpu {

static_assert(kGroup == kAmxTile);

int64_t panel_bytes(DType t, int64_t k) { return round_up(k * static_cast<int64_t>(size_of(t)), kLine) * kPanel; }

ColumnGroups groups_of_panel(DType t, int64_t k) {
  const bool whole = has_avx512() && (t == DType::kF32 || (!has_amx() && (t == DType::kBF16 || has_vnni())));
  return {whole ? kPanel : kGroup, panel_bytes(t, k) / (kPanel * kStepBytes)};
}

Ahead Ahead::of(const PanelSteps& next, int64_t row, int64_t rows) {
  constexpr int64_t kFewRows = 96;
  if (next.at == nullptr || (rows > kFewRows && !has_avx512())) return {};
  const int64_t tiles = divide_up(rows, kTileRows);
  return {next.at + next.count * (row / kTileRows) / tiles * next.step_bytes, divide_up(next.step_bytes, tiles)};
}

namespace {

using namespace avx512;

// A line of 16 columns, whose steps begin so many bytes apart.
struct Line {
  DType t;
  int64_t step_bytes;
  std::byte* to;
};

constexpr int64_t kAheadBytes = 1024;  // of a column before it is copied: far enough for memory

// ---- rows ---------------------------------------------------------------------------------------------------------

// A step: an element of each column or, of bf16, those of two rows, the first's in the low half.
NMT_AVX512 [[gnu::always_inline]] inline __m512i step_of(DType t, __mmask16 first, __mmask16 second, const float* x,
                                                         int64_t ldx) {
  const __m512 low = load(first, x);
  if (t == DType::kF32) return _mm512_castps_si512(low);
  const __m512i high = round_to_bf16(load(second, x + ldx));
  return _mm512_or_si512(_mm512_srli_epi32(round_to_bf16(low), 16),
                         _mm512_and_si512(high, _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000))));
}
NMT_AVX512 [[gnu::always_inline]] inline __m512i step_of(DType t, __mmask16 first, __mmask16 second, const uint16_t* x,
                                                         int64_t ldx) {
  if (t == DType::kF32) return _mm512_castps_si512(load(first, x));
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, x));
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(second, x + ldx));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// Of so many rows of x; fetches the line below: its rows lie too far apart for the processor to foresee them.
template <class X>
NMT_AVX512 void pack_line_of_rows(const Line& line, int64_t rows, int64_t columns, const X* x, int64_t ldx) {
  const int64_t each = elements_of_step(line.t), below = kLanes * each * ldx * static_cast<int64_t>(sizeof *x);
  const __mmask16 lanes = lanes_of(columns);
  std::byte* to = line.to;
  for (int64_t r = 0; r < kLanes * each; r += each, x += each * ldx, to += line.step_bytes) {
    prefetch_far(x, below);
    if (each == 2) prefetch_far(x + ldx, below);
    _mm512_storeu_si512(to, step_of(line.t, r < rows ? lanes : 0, r + 1 < rows ? lanes : 0, x, ldx));
  }
}

// The same of float32 without AVX-512.
void copy_line_of_rows(const Line& line, int64_t rows, int64_t columns, const float* x, int64_t ldx) {
  const int64_t below = kLanes * ldx * static_cast<int64_t>(sizeof *x);
  std::byte* to = line.to;
  for (int64_t r = 0; r < kLanes; ++r, x += ldx, to += line.step_bytes) {
    prefetch_far(x, below);
    if (r < rows && columns >= kLanes) {
      std::memcpy(to, x, kLine);
      continue;
    }
    std::memset(to, 0, kLine);
    if (r < rows && columns > 0) std::memcpy(to, x, static_cast<size_t>(columns) * sizeof *x);
  }
}

// The steps from a line on of groups of columns.
template <class X>
void pack_lines_of_rows(void (*pack_line)(const Line&, int64_t, int64_t, const X*, int64_t), DType t,
                        const ColumnGroups& g, int64_t all_rows, int64_t all_columns, int64_t rows, int64_t columns,
                        const X* x, int64_t ldx, std::byte* to) {
  for (int64_t r = 0; r < all_rows; r += line_elements(t), x += line_elements(t) * ldx, to += kLanes * g.step_bytes())
    for (int64_t c = 0; c < all_columns; c += kLanes)
      pack_line({t, g.step_bytes(), to + g.offset_of(c)}, rows - r, columns - c, x + c, ldx);
}
void pack_lines_of_rows(DType t, const ColumnGroups& g, int64_t all_rows, int64_t all_columns, DType tx, int64_t rows,
                        int64_t columns, const void* x, int64_t ldx, std::byte* to) {
  check(has_avx512() || (t == DType::kF32 && tx == t), "{} in panels of {} without AVX-512", name_of(tx), name_of(t));
  if (tx == DType::kF32)
    pack_lines_of_rows(has_avx512() ? pack_line_of_rows<float> : copy_line_of_rows, t, g, all_rows, all_columns, rows,
                       columns, static_cast<const float*>(x), ldx, to);
  else
    pack_lines_of_rows(pack_line_of_rows<uint16_t>, t, g, all_rows, all_columns, rows, columns,
                       static_cast<const uint16_t*>(x), ldx, to);
}

// ---- columns ------------------------------------------------------------------------------------------------------

// 16 steps of a column, from its first element on, of which so many are left.
NMT_AVX512 [[gnu::always_inline]] inline __m512i line_of(DType t, const float* w, int64_t left) {
  prefetch(w, kAheadBytes);
  const __m512 first = load(lanes_of(left), w);
  if (t == DType::kF32) return _mm512_castps_si512(first);
  prefetch(w + kLanes, kAheadBytes);
  const __m256i low = to_bf16(first), high = to_bf16(load(lanes_of(left - kLanes), w + kLanes));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

NMT_AVX512 void pack_line_of_columns(const Line& line, int64_t columns, int64_t left, const float* w, int64_t ldw) {
  Vectors v;
#pragma GCC unroll 16
  for (int64_t c = 0; c < kLanes; ++c) v[c] = c < columns ? line_of(line.t, w + c * ldw, left) : _mm512_setzero_si512();
  transpose(v);
#pragma GCC unroll 16
  for (int64_t step = 0; step < kLanes; ++step) _mm512_storeu_si512(line.to + step * line.step_bytes, v[step]);
}

// The same of float32 without AVX-512.
void copy_line_of_columns(const Line& line, int64_t columns, int64_t left, const float* w, int64_t ldw) {
  const int64_t step = line.step_bytes / kStepBytes;
  columns = std::clamp<int64_t>(columns, 0, kLanes);
  left = std::min<int64_t>(left, kLanes);
  if (columns < kLanes || left < kLanes)
    for (int64_t i = 0; i < kLanes; ++i) std::memset(line.to + i * line.step_bytes, 0, kLine);
  transpose(columns, left, w, ldw, reinterpret_cast<float*>(line.to), step);
}

}  // namespace

void pack_rows(DType t, int64_t k, const PanelPart& part, DType tx, int64_t rows, const void* x, int64_t ldx,
               std::byte* packed) {
  check(t != DType::kI8, "rows in panels of bytes");
  const ColumnGroups g = groups_of_panel(t, k);
  const int64_t columns = part.end_column - part.column;
  std::byte* to = packed + g.offset_of(part.column) + part.row / elements_of_step(t) * g.step_bytes();
  pack_lines_of_rows(t, g, part.end_row - part.row, round_up(columns, kPanel), tx, rows, columns, x, ldx, to);
}

void pack_columns(DType t, int64_t k, int64_t begin, int64_t end, const float* w, std::byte* packed) {
  const ColumnGroups g = groups_of_panel(t, k);
  check(t == DType::kF32 || (t == DType::kBF16 && has_avx512()), "float32 in panels of {}", name_of(t));
  if (k == 0) return;
  const auto pack_line = has_avx512() ? pack_line_of_columns : copy_line_of_columns;
  packed += g.offset_of(begin);
  const int64_t columns = end - begin;
  for (int64_t c = 0; c < round_up(columns, kPanel); c += kLanes) {
    std::byte* to = packed + g.offset_of(c);
    for (int64_t i = 0; i < k; i += line_elements(t), to += kLanes * g.step_bytes())
      pack_line({t, g.step_bytes(), to}, columns - c, k - i, w + c * k + i, k);
  }
}

void group_columns(DType t, const ColumnGroups& group, DType tx, int64_t rows, int64_t columns, const void* x,
                   int64_t ldx, std::byte* to) {
  pack_lines_of_rows(t, group, group.steps * elements_of_step(t), group.columns, tx, rows, columns, x, ldx, to);
}

}  // namespace nmt::cpu
