#pragma once

#include "graph/graph.h"

// The most probable ids of an output layer, for decoding: its logits exist by tiles or, on a device, by rows that fill
// it.
namespace nmt {

// The k most probable ids of softmax(x w^T) in each row, x [rows, d], w [vocabulary, d]. Output 0: log-probabilities,
// float32 [rows, k], falling, equal ones by rising id; output 1: ids, int32 [rows, k].
//
// mask: U8 [rows, vocabulary rounded up to a multiple of 64, / 8]; a row's distribution is over the ids whose bits are
// set in its mask (id i: bit i % 8 of byte i / 8), others have probability 0. Where these are fewer than k, the rest of
// the row is -infinity, id 0. Where a logit is not a number, the row's log-probabilities are NaN.
Expr project_top_k(Expr x, Expr w, int k, Expr mask = {});

struct ProjectTopK {  // inputs: x, w, and a mask or none
  static constexpr std::string_view kName = "project_top_k";
  int k;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const {
    return 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(in[1].shape()[0]);
  }
  bool operator==(const ProjectTopK&) const = default;

 private:
  void masked(const Launch& l) const;
};

}  // namespace nmt
