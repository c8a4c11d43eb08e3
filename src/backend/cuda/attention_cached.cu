#include "backend/cuda/attention.cuh"
#include "backend/cuda/kernels.h"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kColumns = 8;  // of the result, a lane's
constexpr int kAhead = 4;    // entries that a group reads at a time

template <class T>
struct Operands {
  int heads, d_k, d_v, window;
  float scale;
  const T *q, *k_cache, *v_cache;
  int64_t q_stride, k_stride, v_stride, entry_stride, out_stride;
  const int32_t *entry, *length;
  T* out;
};

// One query: groups of `lanes` threads take the entries in turns, each with its own online softmax, read key and value
// as vectors of N elements, and are merged at the end. Block (row and head, part of the columns).
template <class T, int N>
__global__ void __launch_bounds__(kThreads) attention_cached_kernel(Operands<T> x, int lanes) {
  const int64_t row = blockIdx.x / x.heads;
  const int head = static_cast<int>(blockIdx.x % x.heads);
  const int group = threadIdx.x / lanes, groups = kThreads / lanes, lane = threadIdx.x % lanes;
  const int warp = threadIdx.x / kWarp, width = lanes * kColumns;
  const T* const keys = x.k_cache + head * x.d_k;
  const T* const values = x.v_cache + head * x.d_v;
  const int length = x.length[row], entries = x.window > 0 ? min(length, x.window + 1) : length;
  const int32_t* const entry = x.entry + row * x.entry_stride + length - entries;
  const auto column = [&](int i) { return static_cast<int>(blockIdx.y) * width + (i / N * lanes + lane) * N; };

  float* const query = shared_memory<float>();
  float* const sums_of_warps = query + (x.d_k + 3) / 4 * 4;  // [warp][columns]
  float* const largest_of_warps = sums_of_warps + kWarps * width;
  float* const totals_of_warps = largest_of_warps + kWarps;
  for (int c = threadIdx.x; c < x.d_k; c += kThreads)
    query[c] = to_float(x.q[row * x.q_stride + head * x.d_k + c]) * x.scale;
  __syncthreads();

  float largest = -kInfinity, total = 0, sums[kColumns] = {};
  for (int begin = 0; begin < entries; begin += groups * kAhead) {
    int64_t place[kAhead];
    float score[kAhead], value[kAhead][kColumns], most = largest;
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int j = begin + u * groups + group;
      place[u] = j < entries ? entry[j] : -1;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      score[u] = 0;
      if (place[u] < 0) continue;
      for (int c = lane * N; c < x.d_k; c += lanes * N) {
        float key[N], factor[N];
        load(keys + place[u] * x.k_stride + c, key);
        load(query + c, factor);
#pragma unroll
        for (int i = 0; i < N; ++i) score[u] = fmaf(key[i], factor[i], score[u]);
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; i += N) {
        float some[N] = {};
        if (place[u] >= 0 && column(i) < x.d_v) load(values + place[u] * x.v_stride + column(i), some);
#pragma unroll
        for (int n = 0; n < N; ++n) value[u][i + n] = some[n];
      }
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      for (int offset = lanes / 2; offset > 0; offset /= 2) score[u] += __shfl_xor_sync(kAllLanes, score[u], offset);
      if (place[u] < 0) score[u] = -kInfinity;
      most = fmaxf(most, score[u]);
    }
    const float shift = most == -kInfinity ? 0 : most, shrink = exponential(largest - shift);
    largest = most;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] *= shrink;
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const float weight = exponential(score[u] - shift);
      total += weight;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sums[i] = fmaf(weight, value[u][i], sums[i]);
    }
  }

  // The groups of a warp, then the warps.
  const float most = warp_max(largest), shrink = most == -kInfinity ? 0 : exponential(largest - most);
  total *= shrink;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) sums[i] *= shrink;
  for (int offset = lanes; offset < kWarp; offset *= 2) {
    total += __shfl_xor_sync(kAllLanes, total, offset);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] += __shfl_xor_sync(kAllLanes, sums[i], offset);
  }
  if (threadIdx.x % kWarp == 0) {
    largest_of_warps[warp] = most;
    totals_of_warps[warp] = total;
  }
  if (static_cast<int>(threadIdx.x) % kWarp < lanes) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums_of_warps[warp * width + i * lanes + lane] = sums[i];
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) >= lanes) return;
  float shift = -kInfinity;
  for (int w = 0; w < kWarps; ++w) shift = fmaxf(shift, largest_of_warps[w]);
  total = 0;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) sums[i] = 0;
  for (int w = 0; w < kWarps && shift > -kInfinity; ++w) {
    const float factor = exponential(largest_of_warps[w] - shift);
    total += factor * totals_of_warps[w];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] = fmaf(factor, sums_of_warps[w * width + i * lanes + lane], sums[i]);
  }
  const float inverse = total == 0 ? 0 : 1 / total;  // no entries: zeros
#pragma unroll
  for (int i = 0; i < kColumns; i += N) {
    float some[N];
#pragma unroll
    for (int n = 0; n < N; ++n) some[n] = sums[i + n] * inverse;
    if (column(i) < x.d_v) store(some, x.out + row * x.out_stride + head * x.d_v + column(i));
  }
}

}  // namespace

void attention_cached(Stream s, DType t, int64_t rows, int heads, int d_k, int d_v, int window, float scale,
                      const void* q, int64_t q_stride, const void* k_cache, int64_t k_stride, const void* v_cache,
                      int64_t v_stride, const int32_t* entry, int64_t entry_stride, const int32_t* length, void* out,
                      int64_t out_stride) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    const Operands<T> x{heads,
                        d_k,
                        d_v,
                        window,
                        scale,
                        static_cast<const T*>(q),
                        static_cast<const T*>(k_cache),
                        static_cast<const T*>(v_cache),
                        q_stride,
                        k_stride,
                        v_stride,
                        entry_stride,
                        out_stride,
                        entry,
                        length,
                        static_cast<T*>(out)};
    int lanes = 1;
    while (lanes < kWarp && lanes * kColumns < d_v) lanes *= 2;
    const int width = lanes * kColumns;
    const Grid grid{.x = rows * heads,
                    .y = divide_up(d_v, width),
                    .threads = kThreads,
                    .shared = ((d_k + 3) / 4 * 4 + kWarps * (width + 2)) * sizeof(float)};
    constexpr int kLoad = 16 / sizeof(T);
    const bool vectors = aligned(k_cache, v_cache, out) && d_k % kLoad == 0 && d_v % kLoad == 0 &&
                         k_stride % kLoad == 0 && v_stride % kLoad == 0 && out_stride % kLoad == 0;
    launch("attention_cached", s, grid, vectors ? attention_cached_kernel<T, kLoad> : attention_cached_kernel<T, 1>, x,
           lanes);
  });
}

}  // namespace nmt::cuda
