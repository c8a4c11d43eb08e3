#pragma once

#include "graph/graph.h"

// What a convolution over the positions of packed sentences is made of: the rows around each row, side by side, which a
// linear layer weighs ("Attention Is All You Need", section 4; Gehring et al. 2017, there without gates).
namespace nmt {

// y[r] = x[r + first] .. x[r + first + count - 1], one behind the other, zeros in place of rows that are not of the
// same sentence. x: [rows, d]; begin: int32 [sentences + 1], see Segments; y: [rows, count * d].
Expr neighbours(Expr x, Expr begin, int first, int count);

// Decoding: row r of x is first written to row slot[r] of the cache, a state [capacity, d]; then y[r] = the last
// `count` of the cache rows entry[r][0 .. length[r]), behind zeros where there are fewer.
Expr cached_neighbours(Expr x, Expr cache, Expr slot, Expr entry, Expr length, int count);

struct Neighbours {  // inputs: x, begin
  static constexpr std::string_view kName = "neighbours";
  int first, count;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const Neighbours&) const = default;
};

struct NeighboursGradient {  // inputs: the gradient of y, begin
  static constexpr std::string_view kName = "neighbours_gradient";
  int first, count;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  bool operator==(const NeighboursGradient&) const = default;
};

struct CachedNeighbours {  // inputs: x, cache, slot, entry, length
  static constexpr std::string_view kName = "cached_neighbours";
  int count;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  bool operator==(const CachedNeighbours&) const = default;
};

}  // namespace nmt
