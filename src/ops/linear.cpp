#include "ops/linear.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/elementwise.h"

namespace nmt {
Expr linear(Expr x, Expr w, Expr bias) {
  const Expr product = x.graph().append(Linear{}, {x, w});
  return bias ? add(product, bias) : product;
}

std::vector<Spec> Linear::infer(std::span<const Spec> in) const {
  check(in.size() == 2u + bias + addend + relu_output, "linear: {} inputs", in.size());
  const Shape &x = in[0].shape, &w = in[1].shape;
  check(x.rank() >= 1 && w.rank() == 2 && x.dim(-1) == w[transposed ? 0 : 1], "linear: x {} and weight {}{} do not fit",
        x, w, transposed ? " (transposed)" : "");
  check_activation(kName, in[0]);
  check(in[1].dtype == DType::kF32, "linear: the weight must be float32, not {}", name_of(in[1].dtype));
  Spec y = in[0];
  y.shape[x.rank() - 1] = w[transposed ? 1 : 0];
  if (bias)
    check(in[2].shape == Shape{y.shape.dim(-1)} && in[2].dtype == DType::kF32, "linear: bias {} for an output {}",
          in[2].shape, y.shape);
  if (in_place() >= 0) check(in.back() == y, "linear: {} of the last input for an output {}", in.back().shape, y.shape);
  return {y};
}

void Linear::backward(Backprop& b) const {
  check(!transposed && !addend && !relu_output, "linear: the gradient of a gradient is not taken");
  Expr g = b.gradient();
  if (relu) g = relu_gradient(b.output(0), g);
  if (b.wants(1)) b.graph().append(LinearWeightGradient{}, {g, b.input(0)}, {b.sink(1)});
  if (bias) add_broadcast_gradient(b, 2, g);
  if (b.wants(0)) b.add(0, b.graph().append(Linear{.transposed = true}, {g, b.input(1)}));
}

void Linear::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const auto& w = l.runtime.packed(l.in[1], x.dtype(), transposed);
  if (in_place() >= 0 && l.in.back().data != y.data)
    std::copy_n(l.in.back().as<std::byte>(), y.spec.bytes(), y.as<std::byte>());
  cpu::multiply(l.runtime.pool(), w, y.shape().rows(), x.dtype(), x.data, y.dtype(), y.data,
                {bias ? l.in[2].as<float>() : nullptr, relu ? Activation::kRelu : Activation::kNone,
                 addend        ? cpu::Held::kAddend
                 : relu_output ? cpu::Held::kRelu
                               : cpu::Held::kNothing});
}

std::vector<Spec> LinearWeightGradient::infer(std::span<const Spec> in) const {
  check(in[0].dtype == in[1].dtype, "{}: {} and {}", kName, name_of(in[0].dtype), name_of(in[1].dtype));
  return {{{in[0].shape.dim(-1), in[1].shape.dim(-1)}, DType::kF32}};
}

void LinearWeightGradient::cpu(const Launch& l) const {
  const Tensor &dy = l.in[0], &x = l.in[1];
  const int64_t n = dy.shape().dim(-1), k = x.shape().dim(-1);
  cpu::multiply_transposed(l.runtime.pool(), x.dtype(), x.shape().rows(), n, k, dy.data, x.data, l.out[0].as<float>());
}

Expr matmul(Expr a, Expr b, bool transpose_a, bool transpose_b) {
  return a.graph().append(MatMul{transpose_a, transpose_b}, {a, b});
}

std::vector<Spec> MatMul::infer(std::span<const Spec> in) const {
  const Shape &a = in[0].shape, &b = in[1].shape;
  bool fits = a.rank() >= 2 && a.rank() == b.rank() && in[0].dtype == in[1].dtype;
  for (int i = 0; fits && i < a.rank() - 2; ++i) fits = a[i] == b[i];
  check(fits && a.dim(transpose_a ? -2 : -1) == b.dim(transpose_b ? -1 : -2), "matmul: {}{} and {}{} do not fit", a,
        transpose_a ? " transposed" : "", b, transpose_b ? " transposed" : "");
  check_activation(kName, in[0]);
  Spec y = in[0];
  y.shape[a.rank() - 2] = a.dim(transpose_a ? -1 : -2);
  y.shape[a.rank() - 1] = b.dim(transpose_b ? -2 : -1);
  return {y};
}

void MatMul::backward(Backprop& b) const {
  const Expr g = b.gradient();
  const Expr x = b.input(0), y = b.input(1);
  if (b.wants(0)) b.add(0, transpose_a ? matmul(y, g, transpose_b, true) : matmul(g, y, false, !transpose_b));
  if (b.wants(1)) b.add(1, transpose_b ? matmul(g, x, true, transpose_a) : matmul(x, g, !transpose_a, false));
}

void MatMul::cpu(const Launch& l) const {
  const Tensor &a = l.in[0], &b = l.in[1], &y = l.out[0];
  const int64_t m = y.shape().dim(-2), n = y.shape().dim(-1), k = a.shape().dim(transpose_a ? -2 : -1);
  const int64_t count = m * n == 0 ? 0 : y.elements() / (m * n);
  l.runtime.pool().parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      cpu::multiply_plain(y.dtype(), transpose_a, transpose_b, m, n, k, a.at(i * m * k), b.at(i * k * n),
                          y.at(i * m * n));
  });
}

}  // namespace nmt
