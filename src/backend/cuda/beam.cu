#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.cuh"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 64;

// A sentence a block. One thread decides: of few candidates there is little to share out.
__global__ void __launch_bounds__(kThreads, 1) advance_beams_kernel(BeamBatch batch) {
  const int64_t sentence = blockIdx.x;
  const int beam = batch.rule.beam;
  auto* const candidates = shared_memory<BeamCandidate>();
  auto* const room = reinterpret_cast<int32_t*>(candidates + 2 * beam);  // [beam, threads]
  if (threadIdx.x == 0) advance_sentence(batch, sentence, candidates, room);
  __syncthreads();
  const int steps = BeamBatch::progress(batch.rule, batch.beams, sentence)->steps;
  for (int i = threadIdx.x; i < steps; i += kThreads) move_entries(batch, sentence, i, room + threadIdx.x, kThreads);
  __syncthreads();
  for (int h = threadIdx.x; h < beam; h += kThreads) make_row(batch, sentence, h);
}

}  // namespace

void advance_beams(Stream s, const BeamBatch& batch) {
  const auto beam = static_cast<size_t>(batch.rule.beam);
  const Grid grid = {.x = batch.sentences,
                     .threads = kThreads,
                     .shared = beam * (2 * sizeof(BeamCandidate) + kThreads * sizeof(int32_t))};
  launch("advance_beams", s, grid, advance_beams_kernel, batch);
}

}  // namespace nmt::cuda
