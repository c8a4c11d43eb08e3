#pragma once

#include "graph/graph.h"
#include "tensor/arguments.h"

namespace nmt {

// Of any shape; float32, bf16 or f16, and the result is of x's shape and dtype.
Expr relu(Expr x);
Expr gelu(Expr x);                 // x * Phi(x), exact
Expr silu(Expr x);                 // x * sigmoid(x)
Expr multiply(Expr a, Expr b);     // element by element; equal shapes and dtypes
Expr scale(Expr x, float factor);  // factor * x
Expr cast(Expr x, DType dtype);    // rounded to nearest even

// Inverted dropout at a site of its own; rate 0 is x itself.
Expr dropout(Expr x, float rate);
// The same at a site drawn before: the mask is a function of (seed, step, site, element).
Expr dropout(Expr x, float rate, uint32_t site);

Expr relu_gradient(Expr y, Expr dy);  // from the output

enum class UnaryKind : uint8_t { kRelu, kGelu, kSilu };

struct Unary {
  static constexpr std::string_view kName = "unary";
  UnaryKind kind;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const Unary&) const = default;
};

// Inputs: the forward op's input (its output for ReLU) and the gradient of its output.
struct UnaryGradient {
  static constexpr std::string_view kName = "unary_gradient";
  UnaryKind kind;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 1; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const UnaryGradient&) const = default;
};

struct Multiply {
  static constexpr std::string_view kName = "multiply";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const Multiply&) const = default;
};

struct Scale {
  static constexpr std::string_view kName = "scale";
  float factor;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const Scale&) const = default;
};

struct Cast {
  static constexpr std::string_view kName = "cast";
  DType dtype;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const Cast&) const = default;
};

struct DropoutOp {
  static constexpr std::string_view kName = "dropout";
  float rate;
  uint32_t site;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const DropoutOp&) const = default;
};

// The kernels' description of a site's mask in the runtime's current step.
Dropout dropout_of(const Runtime& runtime, float rate, uint32_t site);

}  // namespace nmt
