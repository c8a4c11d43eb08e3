#include <algorithm>

#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "graph/plan.h"
#include "ops/logits_cuda.h"
#include "ops/project_top_k.h"

namespace nmt {

int64_t ProjectTopK::cuda_scratch(std::span<const Spec> in) const {
  const int64_t rows = in[0].shape[0], width = in[1].shape[0];
  return Plan::f32_bytes(device_logit_rows(rows, width) * width);
}

void ProjectTopK::cuda(const Launch& l) const {
  const int64_t rows = l.in[0].shape()[0], width = l.in[1].shape()[0];
  const int64_t chunk = device_logit_rows(rows, width);
  const bool masked = l.in.size() > 2;
  const int64_t mask_bytes = masked ? l.in[2].shape()[1] : 0;
  auto* logits = reinterpret_cast<float*>(l.scratch);
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    project_logits(l, first, count, logits);
    cuda::top_k(CudaBackend::of(l).stream(), count, width, k, logits,
                masked ? l.in[2].as<uint8_t>() + first * mask_bytes : nullptr, mask_bytes,
                l.out[0].as<float>() + first * k, l.out[1].as<int32_t>() + first * k);
  }
}

}  // namespace nmt
