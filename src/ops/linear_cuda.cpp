#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/linear.h"

namespace nmt {

// The product, where the ReLU's output may be in y's place.
int64_t Linear::cuda_scratch(std::span<const Spec> in) const { return relu_output ? in.back().bytes() : 0; }

void Linear::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &w = l.in[1], &y = l.out[0];
  auto& backend = CudaBackend::of(l);
  if (addend && l.in.back().data != y.data) backend.copy(y.data, l.in.back().data, static_cast<size_t>(y.spec.bytes()));
  backend.products().multiply({.transpose_b = !transposed,
                               .m = y.shape().rows(),
                               .n = w.shape()[transposed ? 1 : 0],
                               .k = w.shape()[transposed ? 0 : 1],
                               .t = x.dtype(),
                               .ty = y.dtype(),
                               .accumulate = addend,
                               .bias = bias ? backend.weight(l.in[2], y.dtype()) : nullptr,
                               .activation = relu ? Activation::kRelu : Activation::kNone},
                              x.data, backend.weight(w, x.dtype()), relu_output ? l.scratch : y.data);
  if (relu_output)
    cuda::apply_backward(backend.stream(), y.dtype(), cuda::Function::kRelu, y.elements(), l.in.back().data, l.scratch,
                         y.data);
}

void LinearWeightGradient::cuda(const Launch& l) const {
  const Tensor &dy = l.in[0], &x = l.in[1];
  CudaBackend::of(l).products().multiply({.transpose_a = true,
                                          .m = dy.shape().dim(-1),
                                          .n = x.shape().dim(-1),
                                          .k = x.shape().rows(),
                                          .t = x.dtype(),
                                          .ty = DType::kF32,
                                          .accumulate = true},
                                         dy.data, x.data, l.out[0].data);
}

void MatMul::cuda(const Launch& l) const {
  const Tensor &a = l.in[0], &b = l.in[1], &y = l.out[0];
  const int64_t m = y.shape().dim(-2), n = y.shape().dim(-1), k = a.shape().dim(transpose_a ? -2 : -1);
  CudaBackend::of(l).products().multiply({.transpose_a = transpose_a,
                                          .transpose_b = transpose_b,
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .t = a.dtype(),
                                          .ty = y.dtype(),
                                          .count = m * n == 0 ? 0 : y.elements() / (m * n)},
                                         a.data, b.data, y.data);
}

}  // namespace nmt
