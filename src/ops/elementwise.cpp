#include "ops/elementwise.h"

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

template <class Body>
void over_elements(const Launch& l, Body body) {
  l.runtime.pool().parallel_for(l.out[0].elements(), kElementGrain, body);
}

// An output like input x.
std::vector<Spec> like(std::string_view op, const Spec& x) {
  check_activation(op, x);
  return {x};
}

}  // namespace

Expr relu(Expr x) { return x.graph().append(Unary{UnaryKind::kRelu}, {x}); }
Expr gelu(Expr x) { return x.graph().append(Unary{UnaryKind::kGelu}, {x}); }
Expr silu(Expr x) { return x.graph().append(Unary{UnaryKind::kSilu}, {x}); }
Expr multiply(Expr a, Expr b) { return a.graph().append(Multiply{}, {a, b}); }
Expr scale(Expr x, float factor) { return x.graph().append(Scale{factor}, {x}); }
Expr cast(Expr x, DType dtype) { return x.dtype() == dtype ? x : x.graph().append(Cast{dtype}, {x}); }
Expr relu_gradient(Expr y, Expr dy) { return y.graph().append(UnaryGradient{UnaryKind::kRelu}, {y, dy}); }

Expr dropout(Expr x, float rate) { return rate == 0 ? x : dropout(x, rate, x.graph().next_dropout_site()); }
Expr dropout(Expr x, float rate, uint32_t site) {
  check(rate >= 0 && rate < 1, "dropout: the rate {} is not in [0, 1)", rate);
  return rate == 0 ? x : x.graph().append(DropoutOp{rate, site}, {x});
}

std::vector<Spec> Unary::infer(std::span<const Spec> in) const { return like(kName, in[0]); }

void Unary::backward(Backprop& b) const {
  const Expr known = kind == UnaryKind::kRelu ? b.output(0) : b.input(0);
  b.add(0, b.graph().append(UnaryGradient{kind}, {known, b.gradient()}));
}

void Unary::cpu(const Launch& l) const {
  const auto kernel = kind == UnaryKind::kRelu ? cpu::relu : kind == UnaryKind::kGelu ? cpu::gelu : cpu::silu;
  over_elements(l,
                [&](int64_t begin, int64_t end) { kernel(l.out[0].dtype(), begin, end, l.in[0].data, l.out[0].data); });
}

std::vector<Spec> UnaryGradient::infer(std::span<const Spec> in) const {
  check(in[0] == in[1], "{}: {} and {}", kName, in[0].shape, in[1].shape);
  return like(kName, in[1]);
}

void UnaryGradient::cpu(const Launch& l) const {
  const auto kernel = kind == UnaryKind::kRelu   ? cpu::relu_backward
                      : kind == UnaryKind::kGelu ? cpu::gelu_backward
                                                 : cpu::silu_backward;
  over_elements(l, [&](int64_t begin, int64_t end) {
    kernel(l.out[0].dtype(), begin, end, l.in[0].data, l.in[1].data, l.out[0].data);
  });
}

std::vector<Spec> Multiply::infer(std::span<const Spec> in) const {
  check(in[0] == in[1], "multiply: {} and {}", in[0].shape, in[1].shape);
  return like(kName, in[0]);
}

void Multiply::backward(Backprop& b) const {
  for (int i = 0; i < 2; ++i)
    if (b.wants(i)) b.add(i, multiply(b.gradient(), b.input(1 - i)));
}

void Multiply::cpu(const Launch& l) const {
  over_elements(l, [&](int64_t begin, int64_t end) {
    cpu::multiply(l.out[0].dtype(), begin, end, l.in[0].data, l.in[1].data, l.out[0].data);
  });
}

std::vector<Spec> Scale::infer(std::span<const Spec> in) const { return like(kName, in[0]); }

void Scale::backward(Backprop& b) const { b.add(0, scale(b.gradient(), factor)); }

void Scale::cpu(const Launch& l) const {
  over_elements(l, [&](int64_t begin, int64_t end) {
    cpu::scale(l.out[0].dtype(), begin, end, l.in[0].data, factor, l.out[0].data);
  });
}

std::vector<Spec> Cast::infer(std::span<const Spec> in) const {
  const Spec y{in[0].shape, dtype};
  check_activation(kName, in[0]);
  check_activation(kName, y);
  return {y};
}

void Cast::backward(Backprop& b) const { b.add(0, cast(b.gradient(), b.input(0).dtype())); }

void Cast::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  over_elements(l, [&](int64_t begin, int64_t end) {
    cpu::convert(x.dtype(), x.at(begin), y.dtype(), y.at(begin), end - begin);
  });
}

Dropout dropout_of(const Runtime& runtime, float rate, uint32_t site) {
  return {.rate = rate, .site = site, .step = runtime.step, .seed = runtime.seed};
}

std::vector<Spec> DropoutOp::infer(std::span<const Spec> in) const { return like(kName, in[0]); }

void DropoutOp::backward(Backprop& b) const { b.add(0, dropout(b.gradient(), rate, site)); }

void DropoutOp::cpu(const Launch& l) const {
  const auto d = dropout_of(l.runtime, rate, site);
  over_elements(l, [&](int64_t begin, int64_t end) {
    cpu::dropout(l.out[0].dtype(), d, begin, end, l.in[0].data, l.out[0].data);
  });
}

}  // namespace nmt
