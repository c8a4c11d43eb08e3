#include "backend/cpu/amx.h"

#include <algorithm>
#include <array>

#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/avx512.h"
#include "backend/cpu/onednn.h"
#include "base/math.h"

#define NMT_AMX __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16,amx-int8")))

namespace nmt::cpu {
namespace {

using avx512::prefetch;
using avx512::prefetch_far;

constexpr int64_t kTile = 16;                    // rows of a tile
constexpr int64_t kPanelStepBytes = 4 * kPanel;  // of a panel, and a row of sums: four bytes of each column
constexpr int64_t kPanelLineBytes = kTile * kPanelStepBytes;  // what a line of x is multiplied with

// Asks the kernel for the tiles' data, which it does not save for processes that have not asked (Linux,
// Documentation/arch/x86/xstate.rst).
bool tiles_are_permitted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_amx() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_amx) && tiles_are_permitted();
  return has;
}

void AmxAhead::set_panel(const std::byte* whole, int64_t bytes, int64_t i, int64_t n) {
  const int64_t lines = bytes / kLine, begin = lines * i / n, end = lines * (i + 1) / n;
  panel = whole + begin * kLine;
  panel_bytes = (end - begin) * kLine;
}

namespace {

// The intrinsics do not say that they read memory: what was written to it must be there.
void finish_writing() { asm volatile("" ::: "memory"); }

// Tiles 0 to 3 are sums, 4 and 5 rows of x, 6 and 7 columns of B. (Intel's manual, volume 1, chapter 18.)
struct alignas(64) Shapes {
  uint8_t palette = 1, start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{};
  std::array<uint8_t, 16> rows{};
};

}  // namespace

NMT_AMX void AmxTiles::configure(int64_t rows) {
  if (rows == rows_) return;
  rows_ = rows;
  const auto upper = static_cast<uint8_t>(std::min(rows, kTile)),
             lower = static_cast<uint8_t>(std::max<int64_t>(rows - kTile, 1));  // of one row where there are none
  Shapes shapes{.rows = {upper, upper, lower, lower, upper, lower, kTile, kTile}};
  std::fill_n(shapes.row_bytes.begin(), 8, kLine);
  finish_writing();
  _tile_loadconfig(&shapes);
}

namespace {

NMT_AMX void release() { _tile_release(); }

}  // namespace

AmxTiles::~AmxTiles() {
  if (rows_ > 0) release();
}

namespace {

// One line of the rows at x and of 32 columns at b, in one tile of rows or in two.
template <bool kBytes, bool kTwo>
NMT_AMX [[gnu::always_inline]] inline void add_line(const std::byte* x, int64_t row_bytes, const std::byte* b) {
  _tile_loadd(6, b, kPanelStepBytes);
  _tile_loadd(4, x, row_bytes);
  _tile_loadd(7, b + kLine, kPanelStepBytes);
  if constexpr (kTwo) _tile_loadd(5, x + kTile * row_bytes, row_bytes);
  if constexpr (kBytes) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    if constexpr (kTwo) _tile_dpbusd(2, 5, 6);
    if constexpr (kTwo) _tile_dpbusd(3, 5, 7);
  } else {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kTwo) _tile_dpbf16ps(3, 5, 7);
  }
}

// What is left of the rows where they do not end with a line, and zeros.
struct alignas(64) LastLine {
  std::byte rows[kAmxRows][kLine];
};

NMT_AMX LastLine last_line(const AmxProduct& p) {
  LastLine line;
  const int64_t whole = p.bytes / kLine * kLine;
  const __mmask64 used = (__mmask64{1} << (p.bytes - whole)) - 1;
  for (int64_t r = 0; r < p.rows; ++r)
    _mm512_store_si512(line.rows[r], _mm512_maskz_loadu_epi8(used, p.x + r * p.row_bytes + whole));
  return line;
}

// Fetches a little in each of so many steps: all at once would keep the tiles from their own lines.
class Fetcher {
 public:
  Fetcher(const AmxProduct& p, int64_t steps)
      : y_(p.ahead.y),
        y_bytes_(p.ahead.y_bytes),
        ldy_(p.ahead.ldy),
        y_rows_(p.ahead.y == nullptr ? 0 : p.rows),
        y_rows_of_step_(divide_up(p.rows, steps)),
        panel_(p.ahead.panel),
        panel_bytes_(p.ahead.panel_bytes),
        panel_bytes_of_step_(divide_up(p.ahead.panel_bytes, steps)) {}

  void step() {
    if (y_rows_ > 0) {
      for (int64_t r = 0; r < y_rows_of_step_; ++r, y_ += ldy_)
        for (int64_t i = 0; i < y_bytes_; i += kLine) prefetch(y_, i);
      y_rows_ -= y_rows_of_step_;
    }
    if (panel_bytes_ > 0) {
      for (int64_t i = 0; i < panel_bytes_of_step_; i += kLine) prefetch_far(panel_, i);
      panel_ += panel_bytes_of_step_;
      panel_bytes_ -= panel_bytes_of_step_;
    }
  }

 private:
  const std::byte* y_;
  int64_t y_bytes_, ldy_, y_rows_, y_rows_of_step_;
  const std::byte* panel_;
  int64_t panel_bytes_, panel_bytes_of_step_;
};

// 32 columns of the panel, then the other 32.
template <bool kBytes, bool kTwo>
NMT_AMX void multiply(const AmxProduct& p) {
  const int64_t lines = p.bytes / kLine;
  const bool rest = p.bytes % kLine != 0;
  LastLine last;
  if (rest) last = last_line(p);
  finish_writing();
  Fetcher fetcher(p, std::max<int64_t>(2 * divide_up(p.bytes, kLine), 1));  // k may be 0
  for (int64_t half = 0; half < 2; ++half) {
    const std::byte* b = p.panel + half * 2 * kLine;
    std::byte* sums = static_cast<std::byte*>(p.sums) + half * 2 * kLine;
    std::byte* lower = sums + kTile * kPanelStepBytes;
    if (p.add) {
      _tile_loadd(0, sums, kPanelStepBytes);
      _tile_loadd(1, sums + kLine, kPanelStepBytes);
      if constexpr (kTwo) _tile_loadd(2, lower, kPanelStepBytes);
      if constexpr (kTwo) _tile_loadd(3, lower + kLine, kPanelStepBytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const std::byte* next_x = half == 0 ? p.ahead.x : nullptr;
    for (int64_t i = 0; i < lines; ++i) {
      add_line<kBytes, kTwo>(p.x + i * kLine, p.row_bytes, b + i * kPanelLineBytes);
      fetcher.step();
      if (next_x == nullptr) continue;
#pragma GCC unroll 32
      for (int64_t r = 0; r < kAmxRows; ++r) prefetch(next_x, r * p.row_bytes + i * kLine);
    }
    if (rest) {
      add_line<kBytes, kTwo>(last.rows[0], kLine, b + lines * kPanelLineBytes);
      fetcher.step();
    }
    _tile_stored(0, sums, kPanelStepBytes);
    _tile_stored(1, sums + kLine, kPanelStepBytes);
    if constexpr (kTwo) _tile_stored(2, lower, kPanelStepBytes);
    if constexpr (kTwo) _tile_stored(3, lower + kLine, kPanelStepBytes);
  }
}

}  // namespace

void AmxTiles::multiply_bf16(const AmxProduct& p) {
  configure(p.rows);
  p.rows > kTile ? multiply<false, true>(p) : multiply<false, false>(p);
}

void AmxTiles::multiply_bytes(const AmxProduct& p) {
  configure(p.rows);
  p.rows > kTile ? multiply<true, true>(p) : multiply<true, false>(p);
}

}  // namespace nmt::cpu
