#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/avx512.h"
#include "backend/cpu/prefetch.h"
#include "backend/cpu/product_parts.h"

// AMX, whose tiles are 16 rows of 64 bytes, and one of whose instructions multiplies two of them: products for
// gemm_panels.h, gemm_bytes.h and attention_amx.h. Those of matrices of bf16 and of bytes pack columns of B in groups
// of a tile's (panels.h), so that a tile is in one piece.

// Every processor with AMX has these.
#define NMT_AMX \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,amx-tile,amx-bf16,amx-int8")))

namespace nmt::cpu {

// Whether the processor has it, and the kernel lets this process use it.
bool has_amx();

inline constexpr int64_t kAmxTile = 16;  // rows of a tile, and four-byte columns
inline constexpr int64_t kAmxTileBytes = kAmxTile * kLine;
inline constexpr int64_t kAmxRows = 2 * kAmxTile;     // of x that are multiplied together
inline constexpr int64_t kAmxColumns = 2 * kAmxTile;  // of B: half a panel

// sums [kAmxRows, kAmxColumns] = or += x [rows, lines] * two groups of columns of B; those of other rows mean nothing.
struct AmxProduct {
  int64_t lines;  // of kLine bytes, of a row
  const std::byte* x;
  int64_t row_bytes, line_bytes;  // from a row to the next, and from a line
  const std::byte* b;
  int64_t group_bytes;  // from a group to the next
  bool add;
  void* sums;  // of float32, or of int32
};

// What is wanted next and comes into the second cache beside a product. It may lie past the end of its matrix.
struct AmxFetch {
  const std::byte* at = nullptr;
  int64_t line = 0;                           // bytes from what comes beside a line to what comes beside the next
  int64_t pieces = 0, stride = 0, bytes = 0;  // beside each

  NMT_AMX [[gnu::always_inline]] void operator()(int64_t i) const {
    for (int64_t piece = 0; piece < pieces; ++piece)
      for (int64_t byte = 0; byte < bytes; byte += kLine) prefetch_far(at, i * line + piece * stride + byte);
  }
};

// What one of so many products fetches of two groups of columns: together they fetch as many lines as they have.
inline AmxFetch part_of_groups(const std::byte* b, int64_t group_bytes, int64_t part, int64_t parts) {
  const int64_t begin = kAmxTile * part / parts, end = kAmxTile * (part + 1) / parts;
  return {b + begin * kLine, kAmxTileBytes, 2, group_bytes, (end - begin) * kLine};
}

// What tiles hold.
enum class AmxNumbers : uint8_t {
  kBytes,  // unsigned ones of x, signed ones of B
  kBF16,
  kF32,  // in kAmxParts parts of bf16 that follow each other: of rows of x, or of a group's columns (gemm_amx_f32.cpp)
};

inline constexpr int64_t kAmxParts = 3;
inline constexpr int64_t kAmxTurns = 6;  // of a line: the products of its parts

// The operand that the next products read again.
enum class AmxStays : uint8_t { kX, kB };

// The tiles of the calling thread, as long as this lives: nothing else uses them meanwhile.
class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  ~AmxTiles();

  // For products of so many rows, 1 to kAmxRows.
  void configure(int64_t rows);

  // A product, after configure() for its rows, of one line at least. Calls meanwhile(i) beside line i, for kF32 beside
  // turn i, of which a line has kAmxTurns: the tiles leave time for other instructions. The operand that stays is kept
  // in the nearest cache; the other is read past it (tileloaddt1), else it would take its place. Sums are stored after
  // the last line: until then, where none are added to, those of another product may be read from there.
  template <AmxNumbers kNumbers, AmxStays kStays, class Meanwhile>
  NMT_AMX [[gnu::always_inline]] void multiply(const AmxProduct& p, Meanwhile&& meanwhile) const {
    static_assert(kNumbers != AmxNumbers::kF32 || kStays == AmxStays::kX, "parts of B are read past the nearest cache");
    auto* sums = static_cast<std::byte*>(p.sums);
    constexpr int64_t kSumsBytes = kAmxColumns * 4, kLower = kAmxTile * kSumsBytes;
    const int64_t lower = rows_ > kAmxTile ? kAmxTile * p.row_bytes : 0;
    finish_writing();
    if (p.add) {
      _tile_loadd(0, sums, kSumsBytes);
      _tile_loadd(1, sums + kLine, kSumsBytes);
      _tile_loadd(2, sums + kLower, kSumsBytes);
      _tile_loadd(3, sums + kLower + kLine, kSumsBytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const std::byte *x = p.x, *b = p.b;
    constexpr int64_t kTiles = kNumbers == AmxNumbers::kF32 ? kAmxParts : 1;  // of a line of a group
    for (int64_t i = 0; i < p.lines; ++i, x += p.line_bytes, b += kTiles * kAmxTileBytes) {
      if constexpr (kNumbers == AmxNumbers::kF32) {
        multiply_parts(p, x, lower, b, i * kAmxTurns, meanwhile);
      } else {
        if constexpr (kStays == AmxStays::kX) {
          _tile_stream_loadd(6, b, kLine);
          _tile_loadd(4, x, p.row_bytes);
          _tile_stream_loadd(7, b + p.group_bytes, kLine);
          _tile_loadd(5, x + lower, p.row_bytes);
        } else {
          _tile_loadd(6, b, kLine);
          _tile_stream_loadd(4, x, p.row_bytes);
          _tile_loadd(7, b + p.group_bytes, kLine);
          _tile_stream_loadd(5, x + lower, p.row_bytes);
        }
        add_products<kNumbers>();
        meanwhile(i);
      }
    }
    _tile_stored(0, sums, kSumsBytes);
    _tile_stored(1, sums + kLine, kSumsBytes);
    _tile_stored(2, sums + kLower, kSumsBytes);
    _tile_stored(3, sums + kLower + kLine, kSumsBytes);
    finish_writing();
  }

  // The intrinsics do not say that they read and write memory: what is before must be there, and what follows must see.
  static void finish_writing() { asm volatile("" ::: "memory"); }

 private:
  template <AmxNumbers kNumbers>
  NMT_AMX [[gnu::always_inline]] static void add_products() {
    if constexpr (kNumbers == AmxNumbers::kBytes) {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }

  // Of a line the products of parts that matter, the least first, each tile loaded as seldom as that allows.
  template <class Meanwhile>
  NMT_AMX [[gnu::always_inline]] static void multiply_parts(const AmxProduct& p, const std::byte* x, int64_t lower,
                                                            const std::byte* b, int64_t turn, Meanwhile&& meanwhile) {
    const auto load_x = [&](int64_t part) NMT_AMX __attribute__((always_inline)) {
      const std::byte* from = x + part * kAmxRows * kLine;
      _tile_loadd(4, from, kLine);
      _tile_loadd(5, from + lower, kLine);
    };
    const auto load_b = [&](int64_t part) NMT_AMX __attribute__((always_inline)) {
      const std::byte* from = b + part * kAmxTileBytes;
      _tile_stream_loadd(6, from, kLine);
      _tile_stream_loadd(7, from + p.group_bytes, kLine);
    };
    const auto add = [&]() NMT_AMX __attribute__((always_inline)) {
      add_products<AmxNumbers::kF32>();
      meanwhile(turn++);
    };
    load_x(2);
    load_b(0);
    add();
    load_x(1);
    add();
    load_b(1);
    add();
    load_x(0);
    add();
    load_b(2);
    add();
    load_b(0);
    add();
  }

  int64_t rows_ = 0;  // for which the tiles are configured
};

}  // namespace nmt::cpu
