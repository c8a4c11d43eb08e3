#pragma once

#include "graph/graph.h"

// Matrix products. `linear` is a layer: its weight is a parameter [out, in], kept packed between runs. `matmul` is the
// general product of two computed tensors.
namespace nmt {

// x [.., in] * w^T [in, out] (+ bias [out]); the result has x's dtype.
Expr linear(Expr x, Expr w, Expr bias = {});

// a [.., m, k] * b [.., k, n]; leading axes are equal; either operand may be stored transposed in its last two axes.
Expr matmul(Expr a, Expr b, bool transpose_a = false, bool transpose_b = false);

struct Linear {
  static constexpr std::string_view kName = "linear";
  bool transposed = false;  // x * w instead of x * w^T: the gradient of a layer's input
  bool bias = false;        // input 2
  bool relu = false;        // after the bias
  // The last input, whose memory is taken over where it dies, is added to the product, or is the output of ReLU, of
  // which the product becomes the gradient: 0 where the output is not positive. Not both.
  bool addend = false, relu_output = false;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int in_place() const { return addend || relu_output ? 2 + bias : -1; }
  double flops(std::span<const Tensor> in) const {
    return 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(in[1].shape()[transposed ? 1 : 0]);
  }
  bool operator==(const Linear&) const = default;
};

// dw [out, in] += dy^T x.
struct LinearWeightGradient {
  static constexpr std::string_view kName = "linear_weight_gradient";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  double flops(std::span<const Tensor> in) const {
    return 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(in[1].shape().dim(-1));
  }
  bool operator==(const LinearWeightGradient&) const = default;
};

struct MatMul {
  static constexpr std::string_view kName = "matmul";
  bool transpose_a = false, transpose_b = false;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  double flops(std::span<const Tensor> in) const {
    const Shape& b = in[1].shape();
    return 2.0 * static_cast<double>(in[0].elements()) * static_cast<double>(b.dim(transpose_b ? -2 : -1));
  }
  bool operator==(const MatMul&) const = default;
};

}  // namespace nmt
