#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/elementwise.h"

namespace nmt {
namespace {

cuda::Function function_of(UnaryKind kind) {
  return kind == UnaryKind::kRelu   ? cuda::Function::kRelu
         : kind == UnaryKind::kGelu ? cuda::Function::kGelu
                                    : cuda::Function::kSilu;
}

}  // namespace

void Unary::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::apply(CudaBackend::of(l).stream(), y.dtype(), function_of(kind), y.elements(), l.in[0].data, y.data);
}

void UnaryGradient::cuda(const Launch& l) const {
  const Tensor& dx = l.out[0];
  cuda::apply_backward(CudaBackend::of(l).stream(), dx.dtype(), function_of(kind), dx.elements(), l.in[0].data,
                       l.in[1].data, dx.data);
}

void Multiply::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::multiply(CudaBackend::of(l).stream(), y.dtype(), y.elements(), l.in[0].data, l.in[1].data, y.data);
}

void Scale::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::scale(CudaBackend::of(l).stream(), y.dtype(), y.elements(), l.in[0].data, factor, y.data);
}

void Cast::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  cuda::convert(CudaBackend::of(l).stream(), x.dtype(), x.data, y.dtype(), y.data, y.elements());
}

void DropoutOp::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::dropout(CudaBackend::of(l).stream(), y.dtype(), dropout_of(l.runtime, rate, site), y.elements(), l.in[0].data,
                y.data);
}

}  // namespace nmt
