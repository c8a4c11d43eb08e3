#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/product_parts.h"
#include "base/math.h"

// Hints to a processor which lines of memory it will need. The addresses may lie past what is allocated. Inlined
// always: GCC takes a call of a function that only fetches for one without effect, and removes it.
namespace nmt::cpu {

inline const void* address(const void* p, int64_t bytes) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes));
}

// The line `bytes` after p, into the nearest cache.
[[gnu::always_inline]] inline void prefetch(const void* p, int64_t bytes) {
  __builtin_prefetch(address(p, bytes), 0, 3);
}

// Into the second cache, for many lines from memory: there a processor (Zen 4, for one) can wait for more of them at a
// time than for lines of the first one.
[[gnu::always_inline]] inline void prefetch_far(const void* p, int64_t bytes) {
  __builtin_prefetch(address(p, bytes), 0, 2);
}

// Steps of a panel of B (panels.h), where those of its first group of columns lie; none where there are none.
struct PanelSteps {
  const std::byte* at = nullptr;
  int64_t count = 0;
};

// What a tile of a product by AVX2 fetches of the steps that come after those which it multiplies: a share, a little at
// each step, of every group. Where x has few rows B comes from memory faster so; with many it is more work than it
// saves.
struct Ahead {
  const std::byte* share = nullptr;  // of the first group; null: nothing
  int64_t bytes = 0;                 // from what is fetched at a step to the next

  // That of the tile which begins with `row` of so many.
  static Ahead of(const PanelSteps& next, int64_t row, int64_t rows) {
    constexpr int64_t kFewRows = 96;
    if (next.at == nullptr || rows > kFewRows) return {};
    const int64_t tiles = divide_up(rows, kTileRows);
    return {next.at + next.count * (row / kTileRows) / tiles * kLine, divide_up(kLine, tiles)};
  }
};

}  // namespace nmt::cpu
