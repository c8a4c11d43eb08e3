#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.cuh"
#include "tensor/ranked.h"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int64_t kMostKeys = 12 << 10;  // in shared memory, of which a block has 99 KB on every device

// The bits of N elements; all where there is no mask.
template <int N>
__device__ __forceinline__ unsigned bits_of(const uint8_t* mask, int first) {
  return mask == nullptr ? ~0u : static_cast<unsigned>(mask[first / 8]) >> (N == 1 ? first % 8 : 0);
}

// How many of the block's threads say so, for all of them.
__device__ __forceinline__ int count_of(bool says) {
#ifdef __CUDA_ARCH__
  return __syncthreads_count(says);
#else
  return static_cast<int>(block_sum(says ? 1.0f : 0.0f, shared_memory<float>()));
#endif
}

// A threshold that at least k keys reach: the largest, or a smaller one that not more than `most` reach. low: one that
// k are known to reach. reaching(t): how many of the block's keys reach t. 0 where there are not k keys.
template <class Reaching>
__device__ __forceinline__ uint64_t threshold_of(uint64_t low, int k, int most, Reaching reaching) {
  uint64_t threshold = 0;
  for (uint64_t bit = uint64_t{1} << 63; bit != 0; bit >>= 1) {
    const uint64_t higher = threshold | bit;
    if (higher <= low) {
      threshold = higher;
      continue;
    }
    const int reach = reaching(higher);
    if (reach < k) continue;
    threshold = higher;
    if (reach <= most) break;
  }
  return threshold;
}

// Each thread finds the largest of its elements; the k largest of all are among those that reach the k-th largest of
// these, and only k threads have any. Where they may be more than `room`, and are, the threshold is raised. They are
// put into shared memory, and each counts how many are before it.
template <int N>
__global__ void __launch_bounds__(kThreads, 3)
    top_k_kernel(Team team, int64_t width, int k, int room, const float* logits, const uint8_t* mask,
                 int64_t mask_bytes, float* log_probabilities, int32_t* ids) {
  const int64_t r = blockIdx.x;
  logits += r * width;
  log_probabilities += r * k;
  ids += r * k;
  if (mask != nullptr) mask += r * mask_bytes;
  const int begin = threadIdx.x * N, step = blockDim.x * N;

  Normaliser norm;
  float best = -INFINITY;
  int index = -1;
  for (int c = begin; c < width; c += step) {
    const unsigned bits = bits_of<N>(mask, c);
    float v[N];
    load(logits + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const bool wanted = bits >> i & 1;
      if (wanted && (v[i] > best || index < 0)) {
        best = v[i];
        index = c + i;
      }
      if (!wanted) v[i] = -INFINITY;
    }
    norm.take(v);
  }
  norm.combine(team);
  const float log_sum = norm.sum == 0 ? 0 : logf(norm.sum);

  const uint64_t key = index < 0 ? 0 : key_of(best, index);
  uint64_t threshold = threshold_of(0, k, k, [&](uint64_t t) { return count_of(key >= t); });
  // Calls what(key) for each of the thread's keys that reach t.
  const auto for_each = [&](uint64_t t, auto what) {
    if (index < 0 || key < t) return;
    for (int c = begin; c < width; c += step) {
      const unsigned bits = bits_of<N>(mask, c);
      for (int i = 0; i < N; ++i) {
        const uint64_t other = key_of(logits[c + i], c + i);
        if ((bits >> i & 1) && other >= t) what(other);
      }
    }
  };
  if (k * divide_up(width, step) * N > room) {
    const auto reaching = [&](uint64_t t) {
      float count = 0;  // exact: rows are not that wide
      for_each(t, [&](uint64_t) { ++count; });
      return static_cast<int>(block_sum(count, shared_memory<float>()));
    };
    if (reaching(threshold) > room) threshold = threshold_of(threshold, k, room, reaching);
  }
  auto* found = shared_memory<unsigned>();
  auto* keys = reinterpret_cast<uint64_t*>(shared_memory<>() + 16);
  if (threadIdx.x == 0) *found = 0;
  __syncthreads();
  for_each(threshold, [&](uint64_t reaching) { keys[atomicAdd(found, 1u)] = reaching; });
  __syncthreads();
  const unsigned count = *found;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    int before = 0;
    for (unsigned j = 0; j < count; ++j) before += keys[j] > keys[i];
    if (before >= k) continue;
    log_probabilities[before] = (value_of(keys[i]) - norm.largest) - log_sum;
    ids[before] = index_of(keys[i]);
  }
  for (unsigned i = count + threadIdx.x; i < static_cast<unsigned>(k); i += blockDim.x) {
    log_probabilities[i] = -INFINITY;
    ids[i] = 0;
  }
}

}  // namespace

void top_k(Stream s, int64_t rows, int64_t width, int k, const float* logits, const uint8_t* mask, int64_t mask_bytes,
           float* log_probabilities, int32_t* ids) {
  with_vectors(aligned(logits) && width % kVector == 0, [&](auto size) {
    constexpr int N = size;
    const Team team(width, 2 * N, kThreads, 2 * kWarp);  // a block
    const int64_t room = std::min(k * divide_up(width, team.lanes() * N) * N, kMostKeys);
    if (k > room) refuse_launch("top_k", "so many of a row do not fit into shared memory");
    Grid grid = team.grid(rows);
    grid.shared = std::max(grid.shared, 16 + static_cast<size_t>(room) * sizeof(uint64_t));
    launch("top_k", s, grid, top_k_kernel<N>, team, width, k, static_cast<int>(room), logits, mask, mask_bytes,
           log_probabilities, ids);
  });
}

}  // namespace nmt::cuda
