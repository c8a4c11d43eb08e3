#include "ops/logits_cuda.h"

#include <algorithm>

#include "graph/backend_cuda.h"

namespace nmt {

int64_t device_logit_rows(int64_t rows, int64_t width) {
  constexpr int64_t kLogits = 1 << 27;
  return std::min(rows, std::max<int64_t>(128, kLogits / std::max<int64_t>(1, width)));
}

void project_logits(const Launch& l, int64_t first, int64_t count, float* logits) {
  const Tensor &x = l.in[0], &w = l.in[1];
  const int64_t depth = x.shape()[1];
  auto& backend = CudaBackend::of(l);
  backend.products().multiply(
      {.transpose_b = true, .m = count, .n = w.shape()[0], .k = depth, .t = x.dtype(), .ty = DType::kF32},
      x.at(first * depth), backend.weight(w, x.dtype()), logits);
}

}  // namespace nmt
