#include "backend/cuda/kernels.h"
#include "graph/backend_cuda.h"
#include "ops/beams.h"

namespace nmt {

void MakeBeamRows::cuda(const Launch& l) const {
  cuda::beam_rows(CudaBackend::of(l).stream(), beam_batch(rule, l.in), rows(l));
}

void AdvanceBeams::cuda(const Launch& l) const {
  cuda::advance_beams(CudaBackend::of(l).stream(), beam_batch(rule, l.in), step(l));
}

}  // namespace nmt
