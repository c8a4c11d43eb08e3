#include "backend/cpu/amx.h"

#include <algorithm>
#include <array>

#include <sys/syscall.h>
#include <unistd.h>

#include "backend/cpu/onednn.h"

namespace nmt::cpu {
namespace {

// Asks the kernel for the tiles' data, which it does not save for processes that have not asked (Linux,
// Documentation/arch/x86/xstate.rst).
bool tiles_are_permitted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Tiles 0 to 3 are sums, 4 and 5 rows of x, 6 and 7 columns of B. (Intel's manual, volume 1, chapter 18.)
struct alignas(64) Shapes {
  uint8_t palette = 1, start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{};
  std::array<uint8_t, 16> rows{};
};

NMT_AMX void release() { _tile_release(); }

}  // namespace

bool has_amx() {
  static const bool has = onednn_has(dnnl::cpu_isa::avx512_core_amx) && tiles_are_permitted();
  return has;
}

NMT_AMX void AmxTiles::configure(int64_t rows) {
  if (rows == rows_) return;
  rows_ = rows;
  const auto upper = static_cast<uint8_t>(std::min(rows, kAmxTile)),
             lower = static_cast<uint8_t>(std::max<int64_t>(rows - kAmxTile, 1));  // of one row where there are none
  Shapes shapes{.rows = {upper, upper, lower, lower, upper, lower, kAmxTile, kAmxTile}};
  std::fill_n(shapes.row_bytes.begin(), 8, kLine);
  finish_writing();
  _tile_loadconfig(&shapes);
}

AmxTiles::~AmxTiles() {
  if (rows_ > 0) release();
}

}  // namespace nmt::cpu
