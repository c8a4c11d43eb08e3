#pragma once

#include "graph/graph.h"

// Ops over the last axis: softmax, log-softmax, layer normalisation.
namespace nmt {

Expr softmax(Expr x);
Expr log_softmax(Expr x);

// (x - mean) / sqrt(variance + eps) * scale + bias over the last axis (Ba et al. 2016); scale and bias are parameters.
Expr layer_norm(Expr x, Expr scale, Expr bias, float eps = 1e-6f);

struct Softmax {
  static constexpr std::string_view kName = "softmax";
  bool log = false;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return 4.0 * static_cast<double>(in[0].elements()); }
  bool operator==(const Softmax&) const = default;
};

struct SoftmaxGradient {  // inputs: y, dy
  static constexpr std::string_view kName = "softmax_gradient";
  bool log = false;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 1; }
  double flops(std::span<const Tensor> in) const { return 4.0 * static_cast<double>(in[0].elements()); }
  bool operator==(const SoftmaxGradient&) const = default;
};

// Inputs x, scale, bias and, with `residual`, y: layer_norm(x + dropout(y)). Outputs: the result; with `residual`,
// for a gradient, the sum that was normalised, else empty; mean and 1 / deviation of each row.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  float eps;
  bool residual = false;
  float rate = 0;  // of the dropout on y
  uint32_t site = 0;
  bool gradient = false;  // is computed, too

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  double flops(std::span<const Tensor> in) const { return 8.0 * static_cast<double>(in[0].elements()); }
  bool operator==(const LayerNorm&) const = default;

  bool keeps_sum() const { return gradient && residual; }  // else it is x
};

// Inputs: gradient of the result, sum, stats, scale. Outputs: gradient of x, of y (empty without dropout: then it is
// x's), and, accumulated into the parameters, of scale and bias.
struct LayerNormGradient {
  static constexpr std::string_view kName = "layer_norm_gradient";
  float rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const { return 12.0 * static_cast<double>(in[0].elements()); }
  bool operator==(const LayerNormGradient&) const = default;
};

}  // namespace nmt
