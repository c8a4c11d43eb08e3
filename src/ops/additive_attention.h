#pragma once

#include "graph/graph.h"
#include "ops/heads.h"
#include "tensor/arguments.h"

// Additive attention (Bahdanau et al. 2015; "Attention Is All You Need", section 3.2.1) over packed sentences.
namespace nmt {

// softmax(w . tanh(q + k)) v for each head; q, k: [rows, heads * d_k], v: [rows, heads * d_v], w: a parameter [heads,
// d_k].
Expr additive_attention(Expr q, Expr k, Expr v, Expr w, const Segments& segments, KeyMask mask, float dropout);

// As cached_attention does it.
Expr cached_additive_attention(Expr qkv, Expr key_cache, Expr value_cache, Expr w, Expr slot, Expr entry, Expr length,
                               int window);

// Inputs: q, k, v, w, query_begin, key_begin, weight_begin. Outputs: the result [queries, heads * d_v]; log of the
// softmax's normaliser [heads, queries].
struct AdditiveAttention {
  static constexpr std::string_view kName = "additive_attention";
  KeyMask mask;
  float rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const AdditiveAttention&) const = default;

  // What the kernels are told; the launch's first seven inputs are this op's.
  Attention describe(const Launch& l) const;
};

// Inputs: AdditiveAttention's seven, its second output, the gradient of its first. Outputs: gradients of q, k and v,
// and accumulated that of w.
struct AdditiveAttentionGradient {
  static constexpr std::string_view kName = "additive_attention_gradient";
  AdditiveAttention forward;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  int64_t scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const { return 2.5 * forward.flops(in); }
  bool operator==(const AdditiveAttentionGradient&) const = default;
};

struct CachedAdditiveAttention {  // inputs: qkv, key_cache, value_cache, w, slot, entry, length
  static constexpr std::string_view kName = "cached_additive_attention";
  int window;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const CachedAdditiveAttention&) const = default;
};

}  // namespace nmt
