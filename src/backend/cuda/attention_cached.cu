#include "backend/cuda/kernels.h"
#include "backend/cuda/vectors.cuh"

namespace nmt::cuda {
namespace {

constexpr int kHeads = 4;  // of a block: a warp has a row's head

// A warp takes 32 entries at a time, a lane the score of one; then the lanes share the columns of the values.
template <class T>
__global__ void __launch_bounds__(kHeads* kWarp)
    attention_cached_kernel(int64_t rows, int heads, int d_k, int d_v, float scale, const T* q, int64_t q_stride,
                            const T* k_cache, int64_t k_stride, const T* v_cache, int64_t v_stride,
                            const int32_t* entry, int64_t entry_stride, const int32_t* length, T* out,
                            int64_t out_stride) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kHeads + warp;
  if (item >= rows * heads) return;
  const int64_t row = item / heads, head = item % heads;
  float* const query = shared_memory<float>() + warp * (d_k + d_v);
  float* const sums = query + d_k;
  for (int c = lane; c < d_k; c += kWarp) query[c] = to_float(q[row * q_stride + head * d_k + c]) * scale;
  for (int c = lane; c < d_v; c += kWarp) sums[c] = 0;
  __syncwarp();

  const int entries = length[row];
  entry += row * entry_stride;
  float largest = -INFINITY, sum = 0;
  for (int begin = 0; begin < entries; begin += kWarp) {
    const int count = min(kWarp, entries - begin);
    const int64_t place = lane < count ? entry[begin + lane] : 0;
    float score = -INFINITY;
    if (lane < count) {
      const T* key = k_cache + place * k_stride + head * d_k;
      score = 0;
      for (int c = 0; c < d_k; ++c) score += query[c] * to_float(key[c]);
    }
    const float before = largest;
    largest = fmaxf(largest, warp_max(score));
    const float weight = expf(score - largest), kept = expf(before - largest);
    sum = sum * kept + warp_sum(weight);
    for (int c = lane; c < d_v; c += kWarp) sums[c] *= kept;
    for (int j = 0; j < count; ++j) {
      const float w = __shfl_sync(kAllLanes, weight, j);
      const T* value = v_cache + static_cast<int64_t>(__shfl_sync(kAllLanes, place, j)) * v_stride + head * d_v;
      for (int c = lane; c < d_v; c += kWarp) sums[c] += w * to_float(value[c]);
    }
  }
  const float inverse = entries > 0 ? 1 / sum : 0;
  for (int c = lane; c < d_v; c += kWarp) out[row * out_stride + head * d_v + c] = rounded<T>(sums[c] * inverse);
}

}  // namespace

void attention_cached(Stream s, DType t, int64_t rows, int heads, int d_k, int d_v, float scale, const void* q,
                      int64_t q_stride, const void* k_cache, int64_t k_stride, const void* v_cache, int64_t v_stride,
                      const int32_t* entry, int64_t entry_stride, const int32_t* length, void* out,
                      int64_t out_stride) {
  const Grid grid = {.x = divide_up(rows * heads, kHeads),
                     .threads = kHeads * kWarp,
                     .shared = static_cast<size_t>(kHeads * (d_k + d_v)) * sizeof(float)};
  with_type(t, [&](auto type) {
    using T = decltype(type);
    launch("attention_cached", s, grid, attention_cached_kernel<T>, rows, heads, d_k, d_v, scale,
           static_cast<const T*>(q), q_stride, static_cast<const T*>(k_cache), k_stride, static_cast<const T*>(v_cache),
           v_stride, entry, entry_stride, length, static_cast<T*>(out), out_stride);
  });
}

}  // namespace nmt::cuda
