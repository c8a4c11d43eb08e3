#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/elementwise.h"
#include "ops/normalize.h"

namespace nmt {

void Softmax::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::softmax(CudaBackend::of(l).stream(), y.dtype(), log, y.shape().rows(), y.shape().dim(-1), l.in[0].data, y.data);
}

void SoftmaxGradient::cuda(const Launch& l) const {
  const Tensor& dx = l.out[0];
  cuda::softmax_backward(CudaBackend::of(l).stream(), dx.dtype(), log, dx.shape().rows(), dx.shape().dim(-1),
                         l.in[0].data, l.in[1].data, dx.data);
}

void LayerNorm::cuda(const Launch& l) const {
  const Tensor& x = l.in[0];
  cuda::add_dropout_layer_norm(CudaBackend::of(l).stream(), x.dtype(), x.shape().rows(), x.shape().dim(-1), x.data,
                               residual ? l.in[3].data : nullptr, dropout_of(l.runtime, rate, site),
                               l.in[1].as<float>(), l.in[2].as<float>(), eps, keeps_sum() ? l.out[1].data : nullptr,
                               l.out[0].data, l.out[2].as<float>());
}

int64_t LayerNormGradient::cuda_scratch(std::span<const Spec> in) const {
  return cuda::layer_norm_room(in[0].shape.rows(), in[0].shape.dim(-1)) * static_cast<int64_t>(sizeof(float));
}

void LayerNormGradient::cuda(const Launch& l) const {
  const Tensor& dout = l.in[0];
  cuda::layer_norm_backward(CudaBackend::of(l).stream(), dout.dtype(), dout.shape().rows(), dout.shape().dim(-1),
                            dout.data, l.in[1].data, l.in[2].as<float>(), l.in[3].as<float>(),
                            dropout_of(l.runtime, rate, site), l.out[0].data, rate > 0 ? l.out[1].data : nullptr,
                            reinterpret_cast<float*>(l.scratch), l.out[2].as<float>(), l.out[3].as<float>());
}

}  // namespace nmt
