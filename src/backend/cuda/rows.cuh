#pragma once

#include <algorithm>
#include <cfloat>

#include "backend/cuda/vectors.cuh"

// Kernels that work on rows: what a row shares, its sums and its largest element.
namespace nmt::cuda {

// The threads of a row: a warp, and a block has several rows; or, where rows are wide, a block.
class Team {
 public:
  static constexpr int kWarps = 4;  // of a block whose warps have a row each

  // As many threads as leave `elements` of a row to each, but whole warps from `least` to `most` threads.
  Team(int64_t width, int64_t elements, int most, int least = kWarp)
      : lanes_(static_cast<int>(std::clamp<int64_t>(divide_up(width, elements * kWarp) * kWarp, least, most))) {}

  int threads() const { return lanes_ == kWarp ? kWarps * kWarp : lanes_; }       // of a block
  int64_t blocks(int64_t rows) const { return divide_up(rows, count()); }         // with a row for each team
  __host__ __device__ int count() const { return lanes_ == kWarp ? kWarps : 1; }  // teams of a block
  __host__ __device__ int lanes() const { return lanes_; }
  Grid grid(int64_t rows) const { return {.x = blocks(rows), .threads = threads(), .shared = kRoom * sizeof(float)}; }

  __device__ int index() const { return lanes_ == kWarp ? threadIdx.x / kWarp : 0; }  // in the block
  __device__ int lane() const { return lanes_ == kWarp ? threadIdx.x % kWarp : threadIdx.x; }
  __device__ int64_t row() const { return static_cast<int64_t>(blockIdx.x) * count() + index(); }

  // Over the team, for all of its threads. The first kRoom floats of shared memory are used, and free again afterwards.
  static constexpr int kRoom = 3 * kWarp;
  __device__ __forceinline__ void add_up(float& a, float& b) const {
    a = warp_sum(a);
    b = warp_sum(b);
    if (lanes_ == kWarp) return;
    auto* room = shared_memory<float>();
    if (threadIdx.x % kWarp == 0) {
      room[threadIdx.x / kWarp] = a;
      room[kWarp + threadIdx.x / kWarp] = b;
    }
    __syncthreads();
    const unsigned w = threadIdx.x % kWarp;
    const bool exists = w < blockDim.x / kWarp;
    a = warp_sum(exists ? room[w] : 0);
    b = warp_sum(exists ? room[kWarp + w] : 0);
    __syncthreads();
  }
  __device__ __forceinline__ float sum(float x) const {
    return lanes_ == kWarp ? warp_sum(x) : block_sum(x, shared_memory<float>());
  }

 private:
  int lanes_;
};

// The normaliser of a softmax, the sum of exp(x - largest), of the elements taken so far. The fast exponential errs
// more the smaller it is, so that the sum loses nothing.
struct Normaliser {
  float largest = -FLT_MAX, sum = 0;

  template <int N>
  __device__ __forceinline__ void take(const float (&x)[N]) {
    float m = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) m = fmaxf(m, x[i]);
    sum *= __expf(largest - m);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += __expf(x[i] - m);
    largest = m;
  }

  // That of all elements of the team; `more` is added up over it, too.
  __device__ __forceinline__ void combine(const Team& team, float& more) {
    combine_warp(more);
    if (team.lanes() == kWarp) return;
    auto* room = shared_memory<float>();
    const unsigned w = threadIdx.x % kWarp;
    if (w == 0) {
      float* of_warp = room + threadIdx.x / kWarp;
      of_warp[0] = largest;
      of_warp[kWarp] = sum;
      of_warp[2 * kWarp] = more;
    }
    __syncthreads();
    const bool exists = w < blockDim.x / kWarp;
    largest = exists ? room[w] : -FLT_MAX;
    sum = exists ? room[kWarp + w] : 0;
    more = exists ? room[2 * kWarp + w] : 0;
    combine_warp(more);
    __syncthreads();
  }
  __device__ __forceinline__ void combine(const Team& team) {
    float nothing = 0;
    combine(team, nothing);
  }

 private:
  __device__ __forceinline__ void combine_warp(float& more) {
    const float m = warp_max(largest);
    sum = warp_sum(sum * __expf(largest - m));
    more = warp_sum(more);
    largest = m;
  }
};

}  // namespace nmt::cuda
