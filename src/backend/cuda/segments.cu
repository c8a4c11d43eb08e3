#include <cmath>

#include "backend/cuda/kernels.h"
#include "backend/cuda/philox.cuh"

// What attention is composed of, where it is not one kernel: ops/heads.h. A block has a row of keys.
namespace nmt::cuda {
namespace {

constexpr int kThreads = 128;

// The sentence of query q: the last that begins there or before.
__device__ __forceinline__ int64_t sentence_of(int64_t q, int64_t sentences, const int32_t* q_begin) {
  int64_t sentence = 0, end = sentences;
  while (sentence + 1 < end) {
    const int64_t middle = (sentence + end) / 2;
    if (q_begin[middle] <= q)
      sentence = middle;
    else
      end = middle;
  }
  return sentence;
}

template <class T>
__global__ void mask_segments_kernel(int64_t queries, int64_t keys, int64_t sentences, const int32_t* q_begin,
                                     const int32_t* k_begin, KeyMask mask, const T* x, T* y) {
  const int64_t row = blockIdx.x * keys, q = blockIdx.x % queries;
  const int64_t s = sentence_of(q, sentences, q_begin);
  const int64_t first = k_begin[s], i = q - q_begin[s];
  const int64_t begin = first + mask.first(i), end = first + mask.end(i, k_begin[s + 1] - first);
  for (int64_t k = threadIdx.x; k < keys; k += kThreads)
    y[row + k] = k >= begin && k < end ? x[row + k] : rounded<T>(-INFINITY);
}

template <class T>
__global__ void dropout_segments_kernel(int64_t queries, int64_t keys, int64_t sentences, const int32_t* q_begin,
                                        const int32_t* k_begin, const int64_t* weight_begin, Dropout d, const T* x,
                                        T* y) {
  const int64_t row = blockIdx.x * keys, q = blockIdx.x % queries, head = blockIdx.x / queries;
  const int64_t s = sentence_of(q, sentences, q_begin);
  const int64_t begin = k_begin[s], end = k_begin[s + 1];
  const int64_t first = head * weight_begin[sentences] + weight_begin[s] + (q - q_begin[s]) * (end - begin);
  for (int64_t k = threadIdx.x; k < keys; k += kThreads) {
    float v[1] = {};
    if (k >= begin && k < end) {
      load(x + row + k, v);
      drop(d, first + k - begin, v);
    }
    store(v, y + row + k);
  }
}

}  // namespace

void mask_segments(Stream s, DType t, int heads, int64_t queries, int64_t keys, int64_t sentences,
                   const int32_t* q_begin, const int32_t* k_begin, KeyMask mask, const void* x, void* y) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    launch("mask_segments", s, {.x = heads * queries, .threads = kThreads}, mask_segments_kernel<T>, queries, keys,
           sentences, q_begin, k_begin, mask, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void dropout_segments(Stream s, DType t, int heads, int64_t queries, int64_t keys, int64_t sentences,
                      const int32_t* q_begin, const int32_t* k_begin, const int64_t* weight_begin, const Dropout& d,
                      const void* x, void* y) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    launch("dropout_segments", s, {.x = heads * queries, .threads = kThreads}, dropout_segments_kernel<T>, queries,
           keys, sentences, q_begin, k_begin, weight_begin, d, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

}  // namespace nmt::cuda
