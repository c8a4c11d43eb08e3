#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "graph/basic_ops.h"

namespace nmt {

void Fill::cuda(const Launch& l) const {
  const Tensor& y = l.out[0];
  cuda::fill(CudaBackend::of(l).stream(), y.dtype(), y.elements(), value, y.data);
}

void Add::cuda(const Launch& l) const {
  const Tensor &y = l.out[0], &b = l.in[1];
  cuda::add(CudaBackend::of(l).stream(), y.dtype(), b.dtype(), y.elements(), b.elements(), l.in[0].data, b.data,
            y.data);
}

namespace {

struct Sum {
  int64_t rows, width;
};

Sum sum_of(const Shape& x, int rank) {
  const int64_t width = last_axes(x, rank).elements();
  return {width == 0 ? 0 : x.elements() / width, width};
}

}  // namespace

int64_t SumLeading::cuda_scratch(std::span<const Spec> in) const {
  const auto [rows, width] = sum_of(in[0].shape, rank);
  return cuda::column_sums_room(rows, width) * static_cast<int64_t>(sizeof(float));
}

void SumLeading::cuda(const Launch& l) const {
  const auto [rows, width] = sum_of(l.in[0].shape(), rank);
  cuda::column_sums(CudaBackend::of(l).stream(), l.in[0].dtype(), rows, width, l.in[0].data,
                    reinterpret_cast<float*>(l.scratch), l.out[0].dtype(), l.out[0].data, accumulate);
}

}  // namespace nmt
