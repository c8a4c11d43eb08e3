#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/elementwise.h"
#include "ops/heads.h"

namespace nmt {
namespace {

int bytes_of_element(const Tensor& x) { return static_cast<int>(size_of(x.dtype())); }

}  // namespace

void Columns::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const int64_t width = x.shape().dim(-1);
  cuda::copy_columns(CudaBackend::of(l).stream(), bytes_of_element(x), x.shape().rows(), count, x.data, width, first,
                     y.data, count, 0);
}

void PadColumns::cuda(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const int64_t count = x.shape().dim(-1);
  auto& backend = CudaBackend::of(l);
  backend.zero(y.data, static_cast<size_t>(y.spec.bytes()));
  cuda::copy_columns(backend.stream(), bytes_of_element(x), y.shape().rows(), count, x.data, count, 0, y.data, width,
                     first);
}

void SplitHeads::cuda(const Launch& l) const {
  const Shape& y = l.out[0].shape();
  cuda::swap_heads(CudaBackend::of(l).stream(), bytes_of_element(l.in[0]), y[1], y[0], y[2], l.in[0].data,
                   l.out[0].data);
}

void MergeHeads::cuda(const Launch& l) const {
  const Shape& x = l.in[0].shape();
  cuda::swap_heads(CudaBackend::of(l).stream(), bytes_of_element(l.in[0]), x[0], x[1], x[2], l.in[0].data,
                   l.out[0].data);
}

void MaskSegments::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::mask_segments(CudaBackend::of(l).stream(), y.dtype(), static_cast<int>(y.shape()[0]), y.shape()[1],
                      y.shape()[2], l.in[1].elements() - 1, l.in[1].as<int32_t>(), l.in[2].as<int32_t>(), mask,
                      l.in[0].data, y.data);
}

void DropoutSegments::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::dropout_segments(CudaBackend::of(l).stream(), y.dtype(), static_cast<int>(y.shape()[0]), y.shape()[1],
                         y.shape()[2], l.in[1].elements() - 1, l.in[1].as<int32_t>(), l.in[2].as<int32_t>(),
                         l.in[3].as<int64_t>(), dropout_of(l.runtime, rate, site), l.in[0].data, y.data);
}

}  // namespace nmt
