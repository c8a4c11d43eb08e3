#pragma once

#include "graph/graph.h"
#include "ops/heads.h"
#include "tensor/arguments.h"

// Attention over packed sentences, as equation 1 of "Attention Is All You Need" writes it, and as one fused op.
namespace nmt {

// softmax(factor * q k^T) of each head, [heads, queries, keys]; q, k: [rows, heads * d_k]. factor 0: d_k^-0.5.
Expr attention_weights(Expr q, Expr k, int heads, const Segments& segments, KeyMask mask, float factor = 0);
// What they take of the values of each head, [rows, heads * d_v] as v is.
Expr weigh_values(Expr weights, Expr v, const Segments& segments, float dropout);
// Both: softmax(factor * q k^T) v.
Expr attention(Expr q, Expr k, Expr v, int heads, const Segments& segments, KeyMask mask, float dropout,
               float factor = 0);

// Decoding: qkv [rows, 3 parts]; row r's key and value are first written to row slot[r] of the caches, then its query
// attends to cache rows entry[r][0 .. length[r]), or with a window to the last window + 1 of them. Caches: states
// [capacity, heads * d].
Expr cached_attention(Expr qkv, Expr key_cache, Expr value_cache, Expr slot, Expr entry, Expr length, int heads,
                      int window = 0, float factor = 0);

// Pairs of a query and a key of its sentence that the mask lets it see; begins as in Segments.
double pairs_seen(const Tensor& query_begin, const Tensor& key_begin, KeyMask mask);
double cached_pairs_seen(const Tensor& length, int window);  // of all rows of a step
// Items, a head of a sentence each, of one task: enough tasks to balance sentences of unequal length; a function of the
// number of items alone.
constexpr int64_t item_grain(int64_t items) { return items < 64 ? 1 : items / 64; }

// The fused op. Inputs: the tensors that hold q, k and v as columns, query_begin, key_begin, weight_begin.
// Outputs: the result [queries, heads * d_v]; log of the softmax's normaliser [heads, queries], on the CPU only for a
// gradient.
struct AttentionOp {
  static constexpr std::string_view kName = "attention";
  int heads, d_k, d_v;
  int q_column, k_column, v_column;
  float scale;
  float rate;
  uint32_t site;
  KeyMask mask;
  bool gradient = false;  // is computed, too

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const AttentionOp&) const = default;

  // What the kernels are told; the launch's first six inputs are this op's.
  Attention describe(const Launch& l) const;
};

// Inputs: AttentionOp's six, its second output, the gradient of its first. The outputs are gradients of the tensors
// that hold q, k and v; as columns of one tensor they share an output: kOne: all three; kTwo: k and v.
struct AttentionGradient {
  static constexpr std::string_view kName = "attention_gradient";
  enum class Sources : uint8_t { kOne, kTwo, kThree };  // so many outputs
  AttentionOp forward;
  Sources sources;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const { return 2.5 * forward.flops(in); }  // five products to two
  bool operator==(const AttentionGradient&) const = default;

  // Where the gradients go, and the outputs that have other columns, too: those have no gradient.
  struct Targets {
    std::byte *dq, *dk, *dv;
    std::vector<size_t> partly_covered;
  };
  Targets targets(const Launch& l) const;
};

struct CachedAttention {
  static constexpr std::string_view kName = "cached_attention";
  int heads, window;
  float factor;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  AttentionOverCache describe(const Launch& l) const;
  bool operator==(const CachedAttention&) const = default;
};

}  // namespace nmt
