#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/amx.h"
#include "backend/cpu/attention_items.h"
#include "backend/cpu/scratch.h"

// The products of attention in bf16 by AMX: weights and gradients of scores are rounded to bf16 for them, as Tensor
// Cores take them; sums are float32. What lies between the products is attention.cpp's and attention_backward.cpp's.
namespace nmt::cpu {

// A matrix of bf16 in tiles, each in one piece: groups of 16 rows (of a left operand) or columns (of a right one), of
// which each has a tile for 32 elements of the sum, in their order.
struct AmxMatrix {
  int64_t groups, lines;  // lines: tiles of a group
  float* tiles = nullptr;

  static constexpr int64_t kTile = kAmxTileBytes / static_cast<int64_t>(sizeof(float));
  ScratchArray scratch() { return {&tiles, groups * lines * kTile}; }
  std::byte* tile(int64_t group, int64_t line) const { return reinterpret_cast<std::byte*>(at(group, line)); }
  AmxMatrix from(int64_t group, int64_t line) const { return {groups - group, lines, at(group, line)}; }

 private:
  float* at(int64_t group, int64_t line) const { return tiles + (group * lines + line) * kTile; }
};

// Whether an item's products are AMX's, whose tiles are then there as long as this lives.
class ItemTiles {
 public:
  bool serve(const Attention& a, const Item& item) {
    const int64_t longest = std::max(item.queries, item.keys);
    const bool good = longest > kAmxTile && longest * a.d_k > kFewest && has_amx();
    if (good) tiles_.configure(kAmxRows);
    return good;
  }

 private:
  static constexpr int64_t kFewest =
      768;  // elements of its queries or keys: of fewer, packing takes longer than tiles save
  AmxTiles tiles_;
};

// What VectorProducts (attention.cpp) is.
class AmxProducts {
 public:
  static constexpr int64_t kUnit = 32;  // queries or keys of a line

  AmxProducts(const Attention& a, const Item& item, const void* k, const void* v);

  void score(const SeenKeys& seen, const void* q);
  void weigh(const SeenKeys& seen);

  int64_t block, length, v_width;
  float *scores, *sums, *shifts, *normalisers;

 private:
  const Attention& a_;
  AmxMatrix queries_, keys_, weights_, values_;
};

// What VectorGradients (attention_backward.cpp) is.
class AmxGradients {
 public:
  static constexpr int64_t kUnit = 32;

  AmxGradients(const Attention& a, const Item& item, const void* k, const void* v);

  void score(const SeenKeys& seen, const void* q, const void* dout);
  void add(const SeenKeys& seen);

  int64_t block, length, k_width, v_width;
  float *weights, *dweights, *dqueries, *dkeys, *dvalues;

 private:
  const Attention& a_;
  AmxMatrix left_queries_, right_queries_, left_douts_, right_douts_;
  AmxMatrix transposed_keys_, keys_, transposed_values_;
  AmxMatrix weights_of_keys_, dweights_of_keys_, dweights_of_queries_;  // rounded
  int64_t groups_seen_ = 0;  // of keys, by the blocks before: their gradients are added to
};

}  // namespace nmt::cpu
