#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cuda/philox.cuh"
#include "backend/cuda/vectors.cuh"
#include "tensor/arguments.h"

// What the attention kernels share.
namespace nmt::cuda {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- tiles of packed sentences ------------------------------------------------------------------
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

__device__ __forceinline__ Tile tile_of(const Attention& a, int64_t sentence, int first) {
  const int64_t s = sentence;
  return {s, a.q_begin[s], a.k_begin[s], a.q_begin[s + 1] - a.q_begin[s], a.k_begin[s + 1] - a.k_begin[s], first};
}

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
  return tile_of(a, low, static_cast<int>(slot - begin[low] / size - low) * size);
}

// Calls body(tile) for the block's tiles of what `begin` tells of: that of its slot; or with `whole` all of sentence
// blockIdx.x one after another, which saves the search and the slots that are left over.
template <class Body>
__device__ __forceinline__ void for_tiles(const Attention& a, const int32_t* begin, int size, bool whole, Body body) {
  Tile tile = whole ? tile_of(a, blockIdx.x, 0) : find_tile(a, begin, size);
  const int count = begin == a.q_begin ? tile.queries : tile.keys;
#pragma unroll 1
  for (; tile.first < count; tile.first += size) {
    body(tile);
    if (!whole) break;
    __syncthreads();
  }
}

// ---- dropout ------------------------------------------------------------------------------------
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

// ---- exponentials: exp2 is what a device computes -----------------------------------------------
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

// Differences of scores are small where it matters.
__device__ __forceinline__ float exponential(float difference) { return exp2f(difference * kLog2E); }

// 2^x, one instruction: good to a few units of float32's last place, zero where the result would be subnormal.
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef NMT_CUDA_EMULATION
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// What the gradients of attention are computed from and where they go.
template <class T>
struct GradientOperands {
  const T *q, *k, *v, *dout;
  const float* logsumexp;
  float* row_sums;  // D
  T *dq, *dk, *dv;
  int64_t queries;
  bool aligned;  // for kernels that ask: rows may be read 16 bytes at a time
};

}  // namespace nmt::cuda
