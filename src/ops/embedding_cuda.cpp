#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace nmt {

void Embed::cuda(const Launch& l) const {
  cuda::embed(CudaBackend::of(l).stream(), dtype, l.in[1].elements(), l.in[0].shape()[1], l.in[0].as<float>(),
              l.in[1].as<int32_t>(), l.in[2].as<float>(), l.in[3].as<int32_t>(), factor,
              dropout_of(l.runtime, rate, site), l.out[0].data);
}

int64_t EmbedGradient::cuda_scratch(std::span<const Spec> in) const { return cuda::embed_room(in[1].shape[0]); }

void EmbedGradient::cuda(const Launch& l) const {
  cuda::embed_backward(CudaBackend::of(l).stream(), l.in[0].dtype(), l.in[1].elements(), l.in[0].shape()[1],
                       l.in[0].data, l.in[1].as<int32_t>(), factor, dropout_of(l.runtime, rate, site), l.scratch,
                       l.out[0].as<float>());
}

}  // namespace nmt
