#pragma once

#include "backend/cpu/kernels.h"
#include "graph/graph.h"

// Attention over packed sentences, as equation 1 of "Attention Is All You Need" writes it, and as one fused op.
namespace nmt {

// Which rows belong to which sentence. begin: int32 [sentences + 1]; the queries of sentence s are rows
// query_begin[s] .. query_begin[s + 1]; weight_begin: int64, running sum of queries * keys of each sentence.
struct Segments {
  Expr query_begin, key_begin, weight_begin;
};

Expr columns(Expr x, int64_t first, int64_t count);  // x[.., first : first + count]
Expr split_heads(Expr x, int heads);                 // [rows, heads * d] -> [heads, rows, d]
Expr merge_heads(Expr x);                            // [heads, rows, d] -> [rows, heads * d]

// scores [heads, queries, keys]: -infinity where query and key are of different sentences or, causal, where the key
// stands behind the query.
Expr mask_segments(Expr scores, const Segments& segments, bool causal);

// Dropout of attention weights [heads, queries, keys]; elements are numbered within sentences (see cpu::Attention), so
// the mask does not depend on how sentences are packed together.
Expr dropout_segments(Expr weights, const Segments& segments, float rate);

// softmax(q k^T / sqrt(d_k)) v for each head; q, k: [rows, heads * d_k], v: [rows, heads * d_v].
Expr attention(Expr q, Expr k, Expr v, int heads, const Segments& segments, bool causal, float dropout);

// Decoding: qkv [rows, 3 parts]; row r's key and value are first written to row slot[r] of the caches, then its query
// attends to cache rows entry[r][0 .. length[r]). Caches: states [capacity, heads * d].
Expr cached_attention(Expr qkv, Expr key_cache, Expr value_cache, Expr slot, Expr entry, Expr length, int heads);

struct Columns {
  static constexpr std::string_view kName = "columns";
  int64_t first, count;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const Columns&) const = default;
};

struct PadColumns {  // the gradient of Columns: zeros around
  static constexpr std::string_view kName = "pad_columns";
  int64_t first, width;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const PadColumns&) const = default;
};

struct SplitHeads {
  static constexpr std::string_view kName = "split_heads";
  int heads;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const SplitHeads&) const = default;
};

struct MergeHeads {
  static constexpr std::string_view kName = "merge_heads";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const MergeHeads&) const = default;
};

struct MaskSegments {  // inputs: scores and the three of Segments
  static constexpr std::string_view kName = "mask_segments";
  bool causal;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const { b.add(0, b.gradient()); }  // softmax sends masked scores no gradient
  void cpu(const Launch& l) const;
  int in_place() const { return 0; }
  bool operator==(const MaskSegments&) const = default;
};

struct DropoutSegments {  // inputs: weights and the three of Segments
  static constexpr std::string_view kName = "dropout_segments";
  float rate;
  uint32_t place;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  int in_place() const { return 0; }
  bool operator==(const DropoutSegments&) const = default;
};

// The fused op. Inputs: the tensors that hold q, k and v as columns, query_begin, key_begin, weight_begin.
// Outputs: the result [queries, heads * d_v]; log of the softmax's normaliser [heads, queries].
struct AttentionOp {
  static constexpr std::string_view kName = "attention";
  int heads, d_k, d_v;
  int q_column, k_column, v_column;
  float scale;
  float rate;
  uint32_t place;
  bool causal;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Spec>) const { return 0; }  // depends on the sentences' lengths, not on shapes
  bool operator==(const AttentionOp&) const = default;
};

// Inputs: AttentionOp's six, its second output, the gradient of its first. The outputs are gradients of the tensors
// that hold q, k and v; as columns of one tensor they share an output: kOne: all three; kTwo: k and v.
struct AttentionGradient {
  static constexpr std::string_view kName = "attention_gradient";
  enum class Sources : uint8_t { kOne, kTwo, kThree };  // so many outputs
  AttentionOp forward;
  Sources sources;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const AttentionGradient&) const = default;
};

struct CachedAttention {
  static constexpr std::string_view kName = "cached_attention";
  int heads;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  bool operator==(const CachedAttention&) const = default;
};

}  // namespace nmt
