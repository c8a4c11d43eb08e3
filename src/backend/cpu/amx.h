#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/product_parts.h"

// AMX, whose tiles are 16 rows of 64 bytes, and one of whose instructions multiplies two of them: sums for the products
// of gemm_panels.h in bf16 and of gemm_vnni.h. Both pack columns of B as it reads them.
namespace nmt::cpu {

// Whether the processor has it, and the kernel lets this process use it.
bool has_amx();

inline constexpr int64_t kAmxRows = 32;  // of x that are multiplied together: two tiles

// What a product fetches into the caches beside its work, as it is wanted next. It may lie past the end of its matrix.
struct AmxAhead {
  const std::byte* x = nullptr;  // kAmxRows rows like those of x
  const std::byte* panel = nullptr;
  int64_t panel_bytes = 0;
  const std::byte* y = nullptr;  // y_bytes of each row, ldy bytes apart
  int64_t y_bytes = 0, ldy = 0;

  // Sets `panel` to part i of n of this one.
  void set_panel(const std::byte* whole, int64_t bytes, int64_t i, int64_t n);
};

// sums [rows, kPanel] = or += x [rows, bytes] * a panel, which has zeros from `bytes` on to the end of the line.
struct AmxProduct {
  int64_t rows;   // 1 to kAmxRows
  int64_t bytes;  // of a row
  const std::byte* x;
  int64_t row_bytes;  // from a row to the next
  const std::byte* panel;
  bool add;
  void* sums;
  AmxAhead ahead = {};
};

// The tiles of the calling thread, as long as this lives: nothing else uses them meanwhile.
class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  ~AmxTiles();

  void multiply_bf16(const AmxProduct& p);   // sums of float32
  void multiply_bytes(const AmxProduct& p);  // sums of int32; x is unsigned, B signed

 private:
  void configure(int64_t rows);

  int64_t rows_ = 0;  // for which the tiles are configured
};

}  // namespace nmt::cpu
