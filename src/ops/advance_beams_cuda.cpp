#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/advance_beams.h"

namespace nmt {

void AdvanceBeams::cuda(const Launch& l) const { cuda::advance_beams(CudaBackend::of(l).stream(), batch(l)); }

}  // namespace nmt
