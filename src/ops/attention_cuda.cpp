#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/attention.h"

namespace nmt {

void AttentionOp::cuda(const Launch& l) const {
  cuda::attention(CudaBackend::of(l).stream(), l.in[0].dtype(), describe(l), l.in[0].shape()[0], l.in[0].at(q_column),
                  l.in[1].at(k_column), l.in[2].at(v_column), l.out[0].data, l.out[1].as<float>());
}

int64_t AttentionGradient::cuda_scratch(std::span<const Spec> in) const {
  return cuda::attention_room(in[0].shape[0], forward.heads) * static_cast<int64_t>(sizeof(float));
}

void AttentionGradient::cuda(const Launch& l) const {
  auto& backend = CudaBackend::of(l);
  const Targets to = targets(l);
  for (const size_t o : to.partly_covered) backend.zero(l.out[o].data, static_cast<size_t>(l.out[o].spec.bytes()));
  cuda::attention_backward(backend.stream(), l.in[0].dtype(), forward.describe(l), l.in[0].shape()[0],
                           l.in[1].shape()[0], l.in[0].at(forward.q_column), l.in[1].at(forward.k_column),
                           l.in[2].at(forward.v_column), l.in[6].as<float>(), l.in[7].data,
                           reinterpret_cast<float*>(l.scratch), to.dq, to.dk, to.dv);
}

void CachedAttention::cuda(const Launch& l) const {
  const Tensor &qkv = l.in[0], &keys = l.in[1], &values = l.in[2];
  const int64_t rows = qkv.shape()[0], width = qkv.shape()[1], wide_k = keys.shape()[1], wide_v = values.shape()[1];
  const auto stream = CudaBackend::of(l).stream();
  const auto* slot = l.in[3].as<int32_t>();
  cuda::scatter_rows(stream, rows, qkv.bytes(wide_k), qkv.at(wide_k), qkv.bytes(width), slot, keys.data);
  cuda::scatter_rows(stream, rows, qkv.bytes(wide_v), qkv.at(2 * wide_k), qkv.bytes(width), slot, values.data);
  cuda::attention_cached(stream, qkv.dtype(), describe(l), rows, qkv.data, keys.data, values.data, l.out[0].data);
}

}  // namespace nmt
