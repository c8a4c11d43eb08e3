#pragma once

#include "graph/graph.h"

// Cross-entropy with label smoothing on integer labels; see cpu::cross_entropy for the formula.
namespace nmt {

// Output 0: weight * sum over rows of the smoothed loss (one element); output 1: -log p(label) of each row [rows].
// labels: int32 [rows], -1: the row does not count; weight: float32 [1].
Expr cross_entropy(Expr logits, Expr labels, Expr weight, float smoothing);

struct CrossEntropy {  // inputs: logits, labels, weight
  static constexpr std::string_view kName = "cross_entropy";
  float smoothing;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  bool operator==(const CrossEntropy&) const = default;
};

struct CrossEntropyGradient {  // inputs: logits, labels, weight, gradient of the loss
  static constexpr std::string_view kName = "cross_entropy_gradient";
  float smoothing;

  std::vector<Spec> infer(std::span<const Spec> in) const { return {in[0]}; }
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  bool operator==(const CrossEntropyGradient&) const = default;
};

// The fused form of cross_entropy(linear(x, w), ...): logits exist for a block of rows at a time, and on the host for a
// tile of their columns, in float32. Its loss must be what backward() starts from: then the gradients of x (output 2)
// and w (output 3, accumulated) are computed along with it.
struct ProjectCrossEntropy {  // inputs: x, w, labels, weight
  static constexpr std::string_view kName = "project_cross_entropy";
  float smoothing;
  bool gradients = false;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const {
    return (gradients ? 6.0 : 2.0) * static_cast<double>(in[0].elements()) * static_cast<double>(in[1].shape()[0]);
  }
  bool operator==(const ProjectCrossEntropy&) const = default;
};

}  // namespace nmt
