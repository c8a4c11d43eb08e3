#include "backend/cuda/kernels.h"
#include "backend/cuda/launch.cuh"
#include "base/math.h"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads, 1) beam_rows_kernel(BeamBatch batch, BeamRows rows) {
  const int64_t row = global_thread();
  if (row < batch.sentences * batch.rule.beam) make_beam_row(batch, rows, row);
}

// A sentence a block. One thread decides: among a few candidates there is little to share out.
__global__ void __launch_bounds__(kWarp, 1) advance_beams_kernel(BeamBatch batch, BeamStep step) {
  auto* const candidates = shared_memory<BeamCandidate>();
  auto* const next = reinterpret_cast<int32_t*>(candidates + 2 * batch.rule.beam);
  if (threadIdx.x == 0) advance_sentence(batch, step, blockIdx.x, candidates, next);
  __syncwarp();
  const int count = step.report[blockIdx.x * BeamStep::report_words(batch.rule, batch.stride) + 1];
  for (int i = threadIdx.x; i < count; i += kWarp) report_finished(batch, step, blockIdx.x, i);
}

}  // namespace

void beam_rows(Stream s, const BeamBatch& batch, const BeamRows& rows) {
  const Grid grid = {.x = divide_up(batch.sentences * batch.rule.beam, kThreads), .threads = kThreads};
  launch("beam_rows", s, grid, beam_rows_kernel, batch, rows);
}

void advance_beams(Stream s, const BeamBatch& batch, const BeamStep& step) {
  const auto beam = static_cast<size_t>(batch.rule.beam);
  const Grid grid = {
      .x = batch.sentences, .threads = kWarp, .shared = beam * (2 * sizeof(BeamCandidate) + sizeof(int32_t))};
  launch("advance_beams", s, grid, advance_beams_kernel, batch, step);
}

}  // namespace nmt::cuda
