#include <algorithm>

#include "backend/cuda/attention.cuh"
#include "backend/cuda/kernels.h"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kColumns = 8;  // of the result, a lane's
// Entries that a group reads at a time.
template <int N>
constexpr int kAhead = N == 1 ? 2 : 4;
// Where there are so many queries, each has a group: they fill a device, and most see a few entries only, which are
// soon read, so that it is beginning and merging that would take the time.
constexpr int64_t kMany = 8192;

template <class T>
struct Operands {
  int64_t queries;  // rows * heads
  int heads, d_k, d_v, window;
  float scale;
  const T *q, *k_cache, *v_cache;
  int64_t q_stride, k_stride, v_stride, entry_stride, out_stride;
  const int32_t *entry, *length;
  T* out;
};

// N of the elements, from i on.
template <int N>
__device__ __forceinline__ float (&slice(float (&x)[kColumns], int i))[N] {
  return *reinterpret_cast<float(*)[N]>(x + i);
}

// A query has a block, or with kIsMany a group of `lanes` threads. The groups of a block take the entries in turns,
// each with its own online softmax, read key and value as vectors of N elements, and are merged at the end. Block
// (queries, part of the columns).
template <class T, int N, bool kIsMany>
__global__ void __launch_bounds__(kThreads, 4) attention_cached_kernel(Operands<T> x, int lanes) {
  const int group = threadIdx.x / lanes, groups = kIsMany ? 1 : kThreads / lanes, lane = threadIdx.x % lanes;
  const int64_t item = kIsMany ? static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + group : blockIdx.x;
  const bool exists = item < x.queries;
  const int64_t row = exists ? item / x.heads : 0;
  const int head = exists ? static_cast<int>(item - row * x.heads) : 0;
  const int width = lanes * kColumns;
  const T* const queries = x.q + row * x.q_stride + head * x.d_k;
  const T* const keys = x.k_cache + head * x.d_k;
  const T* const values = x.v_cache + head * x.d_v;
  const int length = exists ? x.length[row] : 0, entries = x.window > 0 ? min(length, x.window + 1) : length;
  const int32_t* const entry = x.entry + row * x.entry_stride + length - entries;
  // Where the lane's i-th element lies: vectors of a group lie side by side.
  const auto place_of = [&](int i) { return (i / N * lanes + lane) * N; };
  const auto column = [&](int i) { return static_cast<int>(blockIdx.y) * width + place_of(i); };

  float query[kColumns] = {};  // what is behind these, in heads wider than a warp's, is read for each key
#pragma unroll
  for (int i = 0; i < kColumns; i += N) {
    float some[N] = {};
    if (place_of(i) < x.d_k) load(queries + place_of(i), some);
#pragma unroll
    for (int n = 0; n < N; ++n) query[i + n] = some[n] * x.scale;
  }
  // The lanes of a warp go round together.
  const int rounds = kIsMany ? static_cast<int>(warp_max(static_cast<float>(entries))) : entries;

  float largest = -kInfinity, total = 0, sums[kColumns] = {};
  for (int begin = 0; begin < rounds; begin += groups * kAhead<N>) {
    // Behind the last entry that one is read again, and behind the last column that: no branch stands between loads.
    const auto entry_of = [&](int u) { return begin + u * groups + (kIsMany ? 0 : group); };
    const T *key[kAhead<N>], *value[kAhead<N>];
    float k[kAhead<N>][kColumns], v[kAhead<N>][kColumns], score[kAhead<N>] = {}, most = largest;
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
      const int32_t read = entry[max(min(entry_of(u), entries - 1), 0)], place = entries > 0 ? read : 0;
      key[u] = keys + place * x.k_stride;
      value[u] = values + place * x.v_stride;
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; i += N) load(key[u] + min(place_of(i), x.d_k - N), slice<N>(k[u], i));
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; i += N) load(value[u] + min(column(i), x.d_v - N), slice<N>(v[u], i));
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) score[u] = fmaf(k[u][i], query[i], score[u]);
      for (int c = width + lane; c < x.d_k; c += lanes)
        score[u] = fmaf(to_float(key[u][c]), to_float(queries[c]) * x.scale, score[u]);
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int u = 0; u < kAhead<N>; ++u) score[u] += __shfl_xor_sync(kAllLanes, score[u], offset);
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
      if (entry_of(u) >= entries) score[u] = -kInfinity;
      most = fmaxf(most, score[u]);
    }
    const float shift = most == -kInfinity ? 0 : most, shrink = exponential(largest - shift);
    largest = most;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] *= shrink;
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
      const float weight = exponential(score[u] - shift);
      total += weight;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sums[i] = fmaf(weight, v[u][i], sums[i]);
    }
  }

  if constexpr (!kIsMany) {  // the groups of a warp, then the warps
    const float most = warp_max(largest), shrink = most == -kInfinity ? 0 : exponential(largest - most);
    total *= shrink;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] *= shrink;
    for (int offset = lanes; offset < kWarp; offset *= 2) {
      total += __shfl_xor_sync(kAllLanes, total, offset);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sums[i] += __shfl_xor_sync(kAllLanes, sums[i], offset);
    }
    float* const sums_of_warps = shared_memory<float>();  // [warp][columns]
    float* const largest_of_warps = sums_of_warps + kWarps * width;
    float* const totals_of_warps = largest_of_warps + kWarps;
    const int warp = threadIdx.x / kWarp;
    if (threadIdx.x % kWarp == 0) {
      largest_of_warps[warp] = most;
      totals_of_warps[warp] = total;
    }
    if (static_cast<int>(threadIdx.x) % kWarp < lanes) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sums_of_warps[warp * width + i * lanes + lane] = sums[i];
    }
    __syncthreads();
    if (group > 0) return;
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
  }
  if (!exists) return;
  const float inverse = 1 / total;
#pragma unroll
  for (int i = 0; i < kColumns; i += N) {
    float some[N];
#pragma unroll
    for (int n = 0; n < N; ++n) some[n] = total == 0 ? 0 : sums[i + n] * inverse;  // no entries: zeros
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
    const Operands<T> x{rows * heads,
                        heads,
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
    while (lanes < kWarp && lanes * kColumns < std::max(d_k, d_v)) lanes *= 2;
    const int width = lanes * kColumns;
    constexpr int kLoad = 16 / sizeof(T);
    const auto fits = [](int64_t x) { return x % kLoad == 0; };
    const bool vectors = aligned(q, k_cache, v_cache, out) && fits(d_k) && fits(d_v) && fits(q_stride) &&
                         fits(k_stride) && fits(v_stride) && fits(out_stride);
    with_vectors<kLoad>(vectors, [&](auto size) {
      const bool is_many = x.queries >= kMany;
      launch("attention_cached", s,
             {.x = is_many ? divide_up(x.queries, kThreads / lanes) : x.queries,
              .y = divide_up(d_v, width),
              .threads = kThreads,
              .shared = is_many ? 0 : kWarps * (width + 2) * sizeof(float)},
             is_many ? attention_cached_kernel<T, size, true> : attention_cached_kernel<T, size, false>, x, lanes);
    });
  });
}

}  // namespace nmt::cuda
