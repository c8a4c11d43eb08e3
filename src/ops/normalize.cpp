#include "ops/normalize.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "base/math.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/elementwise.h"

namespace nmt {
namespace {

constexpr int64_t kRowsOfSum = 64;  // rows of one partial sum of parameter gradients

void check_rows(std::string_view op, const Spec& x) {
  check_activation(op, x);
  check(x.shape.rank() >= 1, "{}: {} has no last axis", op, x.shape);
}

template <class Body>
void over_rows(const Launch& l, const Spec& spec, Body body) {
  const int64_t width = spec.shape.dim(-1);
  l.runtime.pool().parallel_for(spec.shape.rows(), std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, width)),
                                [&](int64_t begin, int64_t end) {
                                  body(cpu::Rows{begin, end}, width);
                                });
}

}  // namespace

Expr softmax(Expr x) { return x.graph().append(Softmax{false}, {x}); }
Expr log_softmax(Expr x) { return x.graph().append(Softmax{true}, {x}); }
Expr layer_norm(Expr x, Expr scale, Expr bias, float eps) { return x.graph().append(LayerNorm{eps}, {x, scale, bias}); }

std::vector<Spec> Softmax::infer(std::span<const Spec> in) const {
  check_rows(kName, in[0]);
  return {in[0]};
}

void Softmax::backward(Backprop& b) const {
  b.add(0, b.graph().append(SoftmaxGradient{log}, {b.output(0), b.gradient()}));
}

void Softmax::cpu(const Launch& l) const {
  const Tensor& y = l.out[0];
  over_rows(l, y.spec, [&](cpu::Rows rows, int64_t width) {
    (log ? cpu::log_softmax : cpu::softmax)(y.dtype(), rows, width, l.in[0].data, y.data);
  });
}

std::vector<Spec> SoftmaxGradient::infer(std::span<const Spec> in) const {
  check(in[0] == in[1], "{}: {} and {}", kName, in[0].shape, in[1].shape);
  return {in[1]};
}

void SoftmaxGradient::cpu(const Launch& l) const {
  const Tensor& dx = l.out[0];
  over_rows(l, dx.spec, [&](cpu::Rows rows, int64_t width) {
    (log ? cpu::log_softmax_backward : cpu::softmax_backward)(dx.dtype(), rows, width, l.in[0].data, l.in[1].data,
                                                              dx.data);
  });
}

std::vector<Spec> LayerNorm::infer(std::span<const Spec> in) const {
  check_rows(kName, in[0]);
  const Shape width{in[0].shape.dim(-1)};
  check(in.size() == 3u + residual && in[1].shape == width && in[2].shape == width,
        "layer_norm: x {}, scale {} and bias {} do not fit", in[0].shape, in[1].shape, in[2].shape);
  check(in[1].dtype == DType::kF32 && in[2].dtype == DType::kF32, "layer_norm: scale and bias must be f32, not {}, {}",
        name_of(in[1].dtype), name_of(in[2].dtype));
  if (residual) check(in[3] == in[0], "layer_norm: x {} and y {}", in[0].shape, in[3].shape);
  const Spec sum = keeps_sum() ? in[0] : Spec{{0}, in[0].dtype};
  return {in[0], sum, {{in[0].shape.rows(), 2}, DType::kF32}};
}

void LayerNorm::backward(Backprop& b) const {
  Graph& g = b.graph();
  LayerNorm forward = *this;
  forward.gradient = true;
  b.node().op = forward;
  if (residual) b.node().outputs[1] = b.input(0).spec();
  const Expr dx = g.append(LayerNormGradient{rate, site},
                           {b.gradient(), residual ? b.output(1) : b.input(0), b.output(2), b.input(1)},
                           {-1, -1, b.wants(1) ? b.sink(1) : -1, b.wants(2) ? b.sink(2) : -1});
  if (b.wants(0)) b.add(0, dx);
  if (residual && b.wants(3)) b.add(3, rate > 0 ? dx.output(1) : dx);
}

void LayerNorm::cpu(const Launch& l) const {
  const Tensor& x = l.in[0];
  const auto d = dropout_of(l.runtime, rate, site);
  over_rows(l, x.spec, [&](cpu::Rows rows, int64_t width) {
    cpu::add_dropout_layer_norm(x.dtype(), rows, width, x.data, residual ? l.in[3].data : nullptr, d,
                                l.in[1].as<float>(), l.in[2].as<float>(), eps, keeps_sum() ? l.out[1].data : nullptr,
                                l.out[0].data, l.out[2].as<float>());
  });
}

std::vector<Spec> LayerNormGradient::infer(std::span<const Spec> in) const {
  const Spec none{{0}, in[0].dtype};
  const Spec parameter{{in[0].shape.dim(-1)}, DType::kF32};
  return {in[0], rate > 0 ? in[0] : none, parameter, parameter};
}

int64_t LayerNormGradient::scratch(std::span<const Spec> in) const {
  return divide_up(in[0].shape.rows(), kRowsOfSum) * 2 * in[0].shape.dim(-1) * static_cast<int64_t>(sizeof(float));
}

void LayerNormGradient::cpu(const Launch& l) const {
  const Tensor& dout = l.in[0];
  const int64_t width = dout.shape().dim(-1), rows = dout.shape().rows();
  const auto d = dropout_of(l.runtime, rate, site);
  auto* partial = reinterpret_cast<float*>(l.scratch);
  l.runtime.pool().parallel_for(rows, kRowsOfSum, [&](int64_t begin, int64_t end) {
    float* dscale = partial + begin / kRowsOfSum * 2 * width;
    std::fill_n(dscale, 2 * width, 0.f);
    cpu::layer_norm_backward(dout.dtype(), {begin, end}, width, dout.data, l.in[1].data, l.in[2].as<float>(),
                             l.in[3].as<float>(), d, l.out[0].data, rate > 0 ? l.out[1].data : nullptr, dscale,
                             dscale + width);
  });
  for (int64_t begin = 0; begin < rows; begin += kRowsOfSum) {
    const float* dscale = partial + begin / kRowsOfSum * 2 * width;
    cpu::add_f32(0, width, dscale, l.out[2].as<float>());
    cpu::add_f32(0, width, dscale + width, l.out[3].as<float>());
  }
}

}  // namespace nmt
