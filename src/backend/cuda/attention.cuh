#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cuda/philox.cuh"
#include "backend/cuda/vectors.cuh"
#include "tensor/arguments.h"

// What the attention kernels share.
namespace nmt::cuda {

constexpr float kLog2E = 1.44269504088896341f;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- tiles of packed sentences --------------------------------------------------------------------------------------
// Only the device knows where sentences begin. A grid has tile_slots(...) slots for their tiles of `size` rows:
// sentence s has the slots begin[s] / size + s .. begin[s + 1] / size + s, which are enough for its rows; some are left
// over.
inline int64_t tile_slots(int64_t rows, int64_t sentences, int size) {
  return sentences == 0 ? 0 : rows / size + sentences;
}

// A tile: its sentence's rows, and the first of its own within these. The tile is empty if `first` is not less than
// `queries` or `keys`, whatever it is a tile of.
struct Tile {
  int64_t sentence, query_begin, key_begin;  // the sentence's first rows
  int queries, keys, first;
};

// The tile of slot blockIdx.x; `begin` is the q_begin or k_begin of what the tiles are of. A warp looks at 32 sentences
// at a time.
__device__ __forceinline__ Tile find_tile(const Attention& a, const int32_t* begin, int size) {
  const int64_t slot = blockIdx.x, lane = threadIdx.x % kWarp;
  int64_t low = 0, high = a.sentences;  // the last sentence that begins at or before the slot
  while (high - low > 1) {
    const int64_t step = (high - low + kWarp - 1) / kWarp, probe = low + lane * step;
    const bool before = probe < high && begin[probe] / size + probe <= slot;
    low += (__popc(__ballot_sync(kAllLanes, before)) - 1) * step;
    high = low + step < high ? low + step : high;
  }
  return {low,
          a.q_begin[low],
          a.k_begin[low],
          a.q_begin[low + 1] - a.q_begin[low],
          a.k_begin[low + 1] - a.k_begin[low],
          static_cast<int>(slot - begin[low] / size - low) * size};
}

// ---- dropout --------------------------------------------------------------------------------------------------------
// Which weights of one head of one sentence dropout keeps.
class Keep {
 public:
  __device__ Keep(const Attention& a, const Tile& tile, int head)
      : dropout_(a.dropout),
        first_(drops() ? head * a.weight_begin[a.sentences] + a.weight_begin[tile.sentence] : 0),
        keys_(tile.keys) {}

  __device__ bool drops() const { return dropout_.rate > 0; }
  __device__ float scale() const { return 1 / (1 - dropout_.rate); }

  // Bit i: whether the weight of this query and key `key + i` is kept, i < kBits: 8, 16, 24 or 32.
  template <int kBits>
  __device__ unsigned bits(int query, int key) const {
    const int64_t element = first_ + static_cast<int64_t>(query) * keys_ + key;
    uint64_t bits = 0;
#pragma unroll
    for (int b = 0; b <= kBits / 8; ++b) bits |= uint64_t{kept_of_block(dropout_, element / 8 + b)} << (8 * b);
    return static_cast<unsigned>(bits >> (element % 8));
  }

 private:
  Dropout dropout_;
  int64_t first_;
  int keys_;
};

// ---- products of any size, in float32 -------------------------------------------------------------------------------
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

// Differences of scores are small where it matters.
__device__ __forceinline__ float exponential(float difference) { return exp2f(difference * kLog2E); }

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
