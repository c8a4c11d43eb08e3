#pragma once

#include "graph/graph.h"

namespace nmt {

// dropout(factor * table[ids[r]] + encodings[positions[r]]), [rows, d_model] in the runtime's compute dtype. A negative
// id is a zero vector in place of the embedding (the decoder's first input). ids, positions: int32 [rows]; encodings:
// float32 [longest, d_model], sinusoids or a parameter. ("Attention Is All You Need", sections 3.4, 3.5 and 5.4.)
Expr embed(Expr table, Expr ids, Expr encodings, Expr positions, float factor, float dropout);

struct Embed {  // inputs: table, ids, encodings, positions
  static constexpr std::string_view kName = "embed";
  DType dtype;
  float factor, rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const Embed&) const = default;
};

// Inputs: gradient, ids; the output adds to the table's gradient. Of the encodings it is the same, with factor 1 and
// positions as ids.
struct EmbedGradient {
  static constexpr std::string_view kName = "embed_gradient";
  int64_t vocabulary;
  float factor, rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  bool operator==(const EmbedGradient&) const = default;
};

}  // namespace nmt
