#pragma once

#include "backend/cuda/attention.cuh"

// Attention of heads of any size, in float32: products of tiles in shared memory.
namespace nmt::cuda {

// A block of kSimtThreads computes kTile x kTile sums, each thread four rows and four columns of them: rows
// 4 * (thread / 16) .., columns 4 * (thread % 16) ... Factors are in shared memory, by depth: rows of kPitch floats, so
// that a thread reads four at a time and few of a warp's writes meet in a bank.
constexpr int kTile = 64, kPitch = kTile + 4, kSimtThreads = 256, kChunk = 32;
constexpr int kTileFloats = kTile * kPitch;

struct Sums {
  float at[4][4] = {};
};

__device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) / 16 * 4; }
__device__ __forceinline__ int first_column() { return static_cast<int>(threadIdx.x) % 16 * 4; }

// The rows of one head of one sentence: `count` of them, of `width` elements.
template <class T>
struct Rows {
  T* data;
  int stride, count, width;
  bool aligned;  // whether four elements are one access
};

template <class T>
__device__ __forceinline__ Rows<T> head_rows(T* x, int64_t first, int64_t stride, int head, int d, int count,
                                             bool aligned) {
  return {x + first * stride + static_cast<int64_t>(head) * d, static_cast<int>(stride), count, d, aligned};
}

// Whether every four elements of each head's rows, d wide, can be one access.
inline bool quads_fit(DType t, const void* x, int64_t stride, int d) {
  return reinterpret_cast<uintptr_t>(x) % (4 * size_of(t)) == 0 && stride % 4 == 0 && d % 4 == 0;
}

// Elements column .. column + 3 of a row; zero outside of the rows.
template <class T>
__device__ __forceinline__ void load4(const Rows<const T>& x, int row, int column, float (&to)[4]) {
  const int count = row < x.count ? x.width - column : 0;
  const T* from = x.data + static_cast<int64_t>(row) * x.stride + column;
  if (x.aligned && count > 0) return load(from, to);
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = i < count ? to_float(from[i]) : 0;
}

// The same elements become values * factor.
template <class T>
__device__ __forceinline__ void store4(const Rows<T>& x, int row, int column, const float (&values)[4], float factor) {
  const int count = row < x.count ? x.width - column : 0;
  T* to = x.data + static_cast<int64_t>(row) * x.stride + column;
  const float scaled[] = {values[0] * factor, values[1] * factor, values[2] * factor, values[3] * factor};
  if (x.aligned && count > 0) return store(scaled, to);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) to[i] = rounded<T>(scaled[i]);
  }
}

// to[r][c] = x[row + r][column + c], a tile.
template <class T>
__device__ __forceinline__ void load_tile(const Rows<const T>& x, int row, int column, float* to) {
#pragma unroll 2
  for (int i = threadIdx.x; i < kTile * kTile / 4; i += kSimtThreads) {
    const int r = i / (kTile / 4), c = i % (kTile / 4) * 4;
    float values[4];
    load4(x, row + r, column + c, values);
    store(values, to + r * kPitch + c);
  }
}

// to[c][r] = x[row + r][column + c], kChunk columns. Neighbouring threads take 16 columns of eight rows: few of their
// writes meet in a bank.
template <class T>
__device__ __forceinline__ void load_transposed(const Rows<const T>& x, int row, int column, float* to) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile * kChunk / 4; i += kSimtThreads) {
    const int r = i / 4 % kTile, c = (i / (4 * kTile) * 4 + i % 4) * 4;
    float values[4];
    load4(x, row + r, column + c, values);
#pragma unroll
    for (int n = 0; n < 4; ++n) to[(c + n) * kPitch + r] = values[n];
  }
}

// sums[m][n] += sum over k < depth of a[k][m] b[k][n].
__device__ __forceinline__ void multiply(int depth, const float* a, const float* b, Sums& sums) {
  a += first_row();
  b += first_column();
#pragma unroll 2
  for (int k = 0; k < depth; ++k) {
    float left[4], right[4];
    load(a + k * kPitch, left);
    load(b + k * kPitch, right);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sums.at[m][n] = fmaf(left[m], right[n], sums.at[m][n]);
    }
  }
}

// The scalar products of rows a_row .. of a with rows b_row .. of b. room: a tile of shared memory, free before and
// after.
template <class T>
__device__ __forceinline__ Sums multiply_rows(const Rows<const T>& a, int a_row, const Rows<const T>& b, int b_row,
                                              float* room) {
  Sums sums;
  for (int c = 0; c < a.width; c += kChunk) {
    load_transposed(a, a_row, c, room);
    load_transposed(b, b_row, c, room + kChunk * kPitch);
    __syncthreads();
    multiply(a.width - c < kChunk ? a.width - c : kChunk, room, room + kChunk * kPitch, sums);
    __syncthreads();
  }
  return sums;
}

// to[n][m] = x[m][n]: what is then a left factor.
__device__ __forceinline__ void store_transposed(const Sums& x, float* to) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const float column[] = {x.at[0][n], x.at[1][n], x.at[2][n], x.at[3][n]};
    store(column, to + (first_column() + n) * kPitch + first_row());
  }
}

// A tile's dropout: words of 16 keys, [query][key / 16].
constexpr size_t kKeptBytes = kTile * kTile / 8;
static_assert(kKeptBytes == kSimtThreads * sizeof(uint16_t));

__device__ __forceinline__ void fill_kept(const Keep& keep, int query, int key, uint16_t* kept) {
  const int i = threadIdx.x;
  kept[i] = static_cast<uint16_t>(keep.bits<16>(query + i / (kTile / 16), key + i % (kTile / 16) * 16));
}
__device__ __forceinline__ bool is_kept(const uint16_t* kept, int row, int column) {
  return kept[row * (kTile / 16) + column / 16] >> column % 16 & 1;
}

// Over the 16 threads of a row, for each of them.
__device__ __forceinline__ float row_sum(float x) {
  for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ __forceinline__ float row_max(float x) {
  for (int offset = 8; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

}  // namespace nmt::cuda
