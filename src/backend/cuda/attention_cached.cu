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
  int64_t items;  // rows * heads
  const T *q, *k_cache, *v_cache;
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
__global__ void __launch_bounds__(kThreads, 4) attention_cached_kernel(AttentionOverCache a, Operands<T> x, int lanes) {
  const int group = threadIdx.x / lanes, groups = kIsMany ? 1 : kThreads / lanes, lane = threadIdx.x % lanes;
  const int64_t item = kIsMany ? static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + group : blockIdx.x;
  const bool exists = item < x.items;
  const int64_t row = exists ? item / a.heads : 0;
  const int head = exists ? static_cast<int>(item - row * a.heads) : 0;
  const int width = lanes * kColumns;
  const T* const q = x.q + row * a.q_stride + head * a.d_k;
  const T* const keys = x.k_cache + head * a.d_k;
  const T* const values = x.v_cache + head * a.d_v;
  const int length = exists ? a.length[row] : 0, entries = cached_keys_seen(length, a.window);
  const int32_t* const entry = a.entry + row * a.entry_stride + length - entries;
  // Where the lane's i-th element lies: vectors of a group lie side by side.
  const auto place_of = [&](int i) { return (i / N * lanes + lane) * N; };
  const auto column = [&](int i) { return static_cast<int>(blockIdx.y) * width + place_of(i); };

  float query[kColumns] = {};  // what is behind these, in heads wider than a warp's, is read for each key
#pragma unroll
  for (int i = 0; i < kColumns; i += N) {
    float some[N] = {};
    if (place_of(i) < a.d_k) load(q + place_of(i), some);
#pragma unroll
    for (int n = 0; n < N; ++n) query[i + n] = some[n] * a.scale;
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
      key[u] = keys + place * a.k_stride;
      value[u] = values + place * a.v_stride;
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; i += N) load(key[u] + min(place_of(i), a.d_k - N), slice<N>(k[u], i));
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; i += N) load(value[u] + min(column(i), a.d_v - N), slice<N>(v[u], i));
    }
#pragma unroll
    for (int u = 0; u < kAhead<N>; ++u) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) score[u] = fmaf(k[u][i], query[i], score[u]);
      for (int c = width + lane; c < a.d_k; c += lanes)
        score[u] = fmaf(to_float(key[u][c]), to_float(q[c]) * a.scale, score[u]);
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
    if (shift == -kInfinity) shift = 0;  // no entries, or only scores that are no numbers, as their total says
    total = 0;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] = 0;
    for (int w = 0; w < kWarps; ++w) {
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
    if (column(i) < a.d_v) store(some, x.out + row * a.out_stride + head * a.d_v + column(i));
  }
}

}  // namespace

void attention_cached(Stream s, DType t, const AttentionOverCache& a, int64_t rows, const void* q, const void* k_cache,
                      const void* v_cache, void* out) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    const Operands<T> x{rows * a.heads, static_cast<const T*>(q), static_cast<const T*>(k_cache),
                        static_cast<const T*>(v_cache), static_cast<T*>(out)};
    int lanes = 1;
    while (lanes < kWarp && lanes * kColumns < std::max(a.d_k, a.d_v)) lanes *= 2;
    const int width = lanes * kColumns;
    constexpr int kLoad = 16 / sizeof(T);
    const auto fits = [](int64_t n) { return n % kLoad == 0; };
    const bool vectors = aligned(q, k_cache, v_cache, out) && fits(a.d_k) && fits(a.d_v) && fits(a.q_stride) &&
                         fits(a.k_stride) && fits(a.v_stride) && fits(a.out_stride);
    with_vectors<kLoad>(vectors, [&](auto size) {
      const bool is_many = x.items >= kMany;
      launch("attention_cached", s,
             {.x = is_many ? divide_up(x.items, kThreads / lanes) : x.items,
              .y = divide_up(a.d_v, width),
              .threads = kThreads,
              .shared = is_many ? 0 : kWarps * (width + 2) * sizeof(float)},
             is_many ? attention_cached_kernel<T, size, true> : attention_cached_kernel<T, size, false>, a, x, lanes);
    });
  });
}

}  // namespace nmt::cuda
