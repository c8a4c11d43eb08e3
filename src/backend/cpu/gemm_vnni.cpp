#include "backend/cpu/gemm_vnni.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/amx.h"
#include "backend/cpu/avx512.h"
#include "backend/cpu/onednn.h"
#include "base/error.h"
#include "base/math.h"

// Only called where the processor has it.
#define NMT_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

namespace nmt::cpu {

bool has_vnni_products() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_vnni);
  return has;
}

namespace {

using namespace avx512;

int64_t vnni_panel_bytes(int64_t k) { return vnni_row_bytes(k) * kPanel; }

NMT_VNNI inline void store(__mmask16 lanes, __m512 v, float* p) { _mm512_mask_storeu_ps(p, lanes, v); }
NMT_VNNI inline void store(__mmask16 lanes, __m512 v, uint16_t* p) { _mm256_mask_storeu_epi16(p, lanes, to_bf16(v)); }

// sums [R, 64] of R rows of x, which are 4 * fours bytes long, and a panel of columns.
template <int R>
NMT_VNNI void multiply_rows(const uint8_t* x, int64_t fours, const std::byte* panel, int32_t* to) {
  __m512i sums[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_si512();
  for (int64_t i = 0; i < fours; ++i) {
    __m512i columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = _mm512_loadu_si512(panel + (i * kVectors + v) * 64);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int32_t four;
      std::memcpy(&four, x + (r * fours + i) * 4, sizeof four);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], _mm512_set1_epi32(four), columns[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_si512(to + r * kPanel + v * kLanes, sums[r][v]);
}

// What sums [rows, 64] of the panel that begins at `column` mean, to rows row .. of y.
template <class Y>
NMT_VNNI void finish(const VnniProduct& p, const int32_t* sums, int64_t row, int64_t rows, int64_t column) {
  const Epilogue& e = p.epilogue;
  const __m512 floor = floor_of(e);
  for (int64_t first = column; first < std::min(column + kPanel, p.end); first += kLanes) {
    const __mmask16 lanes = lanes_of(p.end - first);
    const __m512 scale = load(lanes, p.scale + first), sum = load(lanes, p.sum + first);
    const __m512 bias = bias_of(e, first - p.begin, lanes);
    for (int64_t r = 0; r < rows; ++r) {
      const RowScale& s = p.rows[row + r];
      const __m512 integers = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kPanel + first - column));
      const __m512 scaled = _mm512_mul_ps(_mm512_mul_ps(integers, _mm512_set1_ps(s.step)), scale);
      const __m512 all = _mm512_fmadd_ps(_mm512_set1_ps(s.low), sum, scaled);
      Y* const to = static_cast<Y*>(p.y) + (row + r) * p.ldy + first - p.begin;
      store(lanes, with_epilogue(e, floor, bias, all, lanes, to), to);
    }
  }
}

}  // namespace

int64_t vnni_row_bytes(int64_t k) { return round_up(k, has_amx() ? kLine : 4); }

int64_t vnni_bytes(int64_t n, int64_t k) { return round_up(n, kPanel) / kPanel * vnni_panel_bytes(k); }

void vnni_pack(int64_t begin, int64_t end, int64_t k, const int8_t* q, std::byte* packed) {
  if (k == 0) return;
  for (int64_t column = begin; column < end; column += kPanel) {
    std::byte* panel = packed + column / kPanel * vnni_panel_bytes(k);
    const int64_t columns = std::min(kPanel, end - column);
    if (columns < kPanel || k != vnni_row_bytes(k)) std::memset(panel, 0, static_cast<size_t>(vnni_panel_bytes(k)));
    for (int64_t c = 0; c < columns; ++c) {
      const int8_t* from = q + (column - begin + c) * k;
      for (int64_t i = 0; i < k; i += 4)
        std::memcpy(panel + i * kPanel + c * 4, from + i, static_cast<size_t>(std::min<int64_t>(4, k - i)));
    }
  }
}

void vnni_multiply(const VnniProduct& p) {
  check(p.ty == DType::kF32 || p.ty == DType::kBF16, "a product of bytes to {}", name_of(p.ty));
  static constexpr std::array kProducts = {multiply_rows<1>, multiply_rows<2>, multiply_rows<3>,
                                           multiply_rows<4>, multiply_rows<5>, multiply_rows<6>};
  const auto finish_tile = p.ty == DType::kF32 ? finish<float> : finish<uint16_t>;
  const bool uses_amx = has_amx();
  const int64_t tile_rows = uses_amx ? kAmxRows : kTileRows, tiles = divide_up(p.m, tile_rows);
  const int64_t row_bytes = vnni_row_bytes(p.k), panel_bytes = vnni_panel_bytes(p.k);
  AmxTiles amx;
  alignas(kLine) int32_t sums[kAmxRows * kPanel];
  for (int64_t column = p.begin; column < p.end; column += kPanel) {
    const std::byte* panel = p.packed + column / kPanel * panel_bytes;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = i * tile_rows, rows = std::min(tile_rows, p.m - row);
      const uint8_t* q = p.q + row * row_bytes;
      if (uses_amx) {
        AmxProduct product{rows, row_bytes, reinterpret_cast<const std::byte*>(q), row_bytes, panel, false, sums};
        if (column + kPanel < p.end) product.ahead.set_panel(panel + panel_bytes, panel_bytes, i, tiles);
        amx.multiply_bytes(product);
      } else {
        kProducts[static_cast<size_t>(rows - 1)](q, row_bytes / 4, panel, sums);
      }
      finish_tile(p, sums, row, rows, column);
    }
  }
}

}  // namespace nmt::cpu
