#pragma once

#include "graph/graph.h"
#include "tensor/arguments.h"

// What attention is composed of, over packed sentences: its definition, written with plain loops. Models run the fused
// op of ops/attention.h.
namespace nmt {

// Which rows belong to which sentence. begin: int32 [sentences + 1]; the queries of sentence s are rows
// query_begin[s] .. query_begin[s + 1]; weight_begin: int64, running sum of queries * keys of each sentence.
struct Segments {
  Expr query_begin, key_begin, weight_begin;
};

// Throw where begins are not such.
void check_begins(std::string_view op, const Spec& begin);
void check_segments(std::string_view op, const Spec& query_begin, const Spec& key_begin, const Spec& weight_begin);

Expr columns(Expr x, int64_t first, int64_t count);  // x[.., first : first + count]
Expr split_heads(Expr x, int heads);                 // [rows, heads * d] -> [heads, rows, d]
Expr merge_heads(Expr x);                            // [heads, rows, d] -> [rows, heads * d]

// scores [heads, queries, keys]: -infinity where query and key are of different sentences or the mask hides the key.
Expr mask_segments(Expr scores, const Segments& segments, KeyMask mask);

// Dropout of attention weights [heads, queries, keys]; elements are numbered within sentences (see Attention), so
// the mask does not depend on how sentences are packed together.
Expr dropout_segments(Expr weights, const Segments& segments, float rate);

struct Columns {
  static constexpr std::string_view kName = "columns";
  int64_t first, count;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const Columns&) const = default;
};

struct PadColumns {  // the gradient of Columns: zeros around
  static constexpr std::string_view kName = "pad_columns";
  int64_t first, width;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const PadColumns&) const = default;
};

struct SplitHeads {
  static constexpr std::string_view kName = "split_heads";
  int heads;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const SplitHeads&) const = default;
};

struct MergeHeads {
  static constexpr std::string_view kName = "merge_heads";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const MergeHeads&) const = default;
};

struct MaskSegments {  // inputs: scores and the three of Segments
  static constexpr std::string_view kName = "mask_segments";
  KeyMask mask;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const { b.add(0, b.gradient()); }  // softmax sends masked scores no gradient
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  bool operator==(const MaskSegments&) const = default;
};

struct DropoutSegments {  // inputs: weights and the three of Segments
  static constexpr std::string_view kName = "dropout_segments";
  float rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  bool operator==(const DropoutSegments&) const = default;
};

}  // namespace nmt
