#pragma once

#include "graph/graph.h"

// The ops that backward() itself needs.
namespace nmt {

inline constexpr int64_t kElementGrain = 1 << 14;  // elements that one task of an elementwise op covers

Expr fill(Graph& graph, const Spec& spec, float value);

// a + b; b is of a's shape, or of the shape of a's last axes (a bias). b may be float32 where a is bf16.
Expr add(Expr a, Expr b);

// The sum of x over its leading axes, of the shape of its last `rank` axes; float32, or x's dtype with `keep_dtype`.
Expr sum_leading(Expr x, int rank, bool keep_dtype = true);

// The gradient of a broadcast operand: input i of b's node, from the full gradient g.
void add_broadcast_gradient(Backprop& b, int i, Expr g);

struct Fill {
  static constexpr std::string_view kName = "fill";
  Spec spec;
  float value;

  std::vector<Spec> infer(std::span<const Spec>) const { return {spec}; }
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const Fill&) const = default;
};

struct Add {
  static constexpr std::string_view kName = "add";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int in_place() const { return 0; }
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const Add&) const = default;
};

struct SumLeading {
  static constexpr std::string_view kName = "sum_leading";
  int rank;
  bool keep_dtype;
  bool accumulate;  // the output is a parameter's gradient

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  int64_t cuda_scratch(std::span<const Spec> in) const;
  int64_t scratch(std::span<const Spec> in) const;
  double flops(std::span<const Tensor> in) const { return static_cast<double>(in[0].elements()); }
  bool operator==(const SumLeading&) const = default;
};

// Throws unless b's shape is a's or a's last axes, or dtypes do not fit; the message names the op.
void check_broadcast(std::string_view op, const Spec& a, const Spec& b);
// Throws unless x is float32, bf16 or f16, the types that ops compute with.
void check_activation(std::string_view op, const Spec& x);
// The last `rank` axes.
Shape last_axes(const Shape& shape, int rank);

}  // namespace nmt
