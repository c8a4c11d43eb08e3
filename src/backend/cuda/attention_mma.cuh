#pragma once

#include "backend/cuda/attention.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/mma.cuh"

// Attention of bf16 or f16 by tensor cores, for d_k and d_v that are multiples of 16 up to 128. A warp has 16 rows of a
// product at a time; sums lie in registers as mma.cuh says, kColumns / 8 blocks of eight columns: with g = lane / 4 and
// t = lane % 4, [n][0 .. 1] is row g, columns 8n + 2t and 8n + 2t + 1, [n][2 .. 3] the same of row g + 8.
namespace nmt::cuda {

// What the kernels, for T = Bf16 and F16, can take; their pointers' alignment too.
bool fits_mma(DType t, const Attention& a, std::initializer_list<const void*> tensors);
template <class T>
void attention_mma(Stream s, const Attention& a, int64_t queries, const T* q, const T* k, const T* v, T* out,
                   float* logsumexp);
template <class T>
void attention_backward_mma(Stream s, const Attention& a, int64_t keys, const GradientOperands<T>& x);

// Calls body(N) with the compiled width that holds d columns.
template <class Body>
void with_width(int d, Body body) {
  if (d <= 16)
    body(std::integral_constant<int, 16>());
  else if (d <= 32)
    body(std::integral_constant<int, 32>());
  else if (d <= 64)
    body(std::integral_constant<int, 64>());
  else
    body(std::integral_constant<int, 128>());
}

constexpr int kWarpRows = 16;

// Warps of a block, as suits sentences of the average length: of each one's nothing is known here. Where they are short
// a block is a warp, which has whole sentences, as of more warps most would have nothing to do. Results do not depend
// on it.
inline int warps_of(const Attention& a, int64_t tokens) {
  return tokens <= 20 * a.sentences ? 1 : tokens <= 40 * a.sentences ? 2 : 4;
}
__device__ __forceinline__ bool has_whole_sentences() { return blockDim.x == kWarp; }
inline int64_t tile_blocks(const Attention& a, int64_t rows, int warps) {
  return warps == 1 ? a.sentences : tile_slots(rows, a.sentences, warps * kWarpRows);
}

// Rows of kWidth elements in shared memory, 16 bytes apart so that eight of them begin in eight different banks.
template <int kWidth>
constexpr int kRowPitch = kWidth + 8;
template <int kWidth>
constexpr size_t tile_bytes(int rows) {
  return static_cast<size_t>(rows) * kRowPitch<kWidth> * sizeof(uint16_t);
}

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

// Begins to copy `rows` rows of d elements, of which `valid` exist. Up to a multiple of 16, which products read, the
// others become zero; rows behind it stay as they are.
template <int kWidth, class T>
__device__ __forceinline__ void copy_rows(const T* x, int64_t stride, int d, int rows, int valid, T* to) {
  const int read = min(rows, (valid + 15) / 16 * 16);
  for (int i = threadIdx.x; i < read * (kWidth / 8); i += blockDim.x) {
    const int r = i / (kWidth / 8), c = i % (kWidth / 8) * 8;
    if (c >= d) continue;
    if (r < valid)
      cp_async_16(to + r * kRowPitch<kWidth> + c, x + r * stride + c);
    else
      *reinterpret_cast<uint4*>(to + r * kRowPitch<kWidth> + c) = {};
  }
}

// Products go over columns by sixteens, up to `columns`: whether block n of eight lies behind them, where there are no
// sums. Loops over blocks end there.
__device__ __forceinline__ bool is_beyond(int n, int columns) { return n / 2 * 16 >= columns; }

// sums += a b^T, the warp's 16 rows of a by `columns` rows of b, of d elements.
template <int kWidth, int kColumns, class T>
__device__ __forceinline__ void multiply_rows(const T* a, const T* b, int d, int columns,
                                              float (&sums)[kColumns / 8][4]) {
  const int lane = lane_of_warp();
  a += lane % 16 * kRowPitch<kWidth> + lane / 16 * 8;
  b += (lane / 16 * 8 + lane % 8) * kRowPitch<kWidth> + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    if (k >= d) break;
    unsigned left[4];
    ldmatrix_x4(left, a + k);
#pragma unroll
    for (int n = 0; n < kColumns; n += 16) {
      if (n >= columns) break;
      unsigned right[4];
      ldmatrix_x4(right, b + n * kRowPitch<kWidth> + k);
      mma_16x8x16<T>(sums[n / 8], left, {right[0], right[1]});
      mma_16x8x16<T>(sums[n / 8 + 1], left, {right[2], right[3]});
    }
  }
}

// sums += a b, a of 16 rows in registers, rounded, by `depth` rows of b, of d elements.
template <int kWidth, int kDepth, class T>
__device__ __forceinline__ void multiply(const float (&a)[kDepth / 8][4], const T* b, int depth, int d,
                                         float (&sums)[kWidth / 8][4]) {
  const int lane = lane_of_warp();
  b += lane % 16 * kRowPitch<kWidth> + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    if (k >= depth) break;
    const auto& near = a[k / 8];
    const auto& far = a[k / 8 + 1];
    const unsigned left[] = {rounded_pair<T>(near[0], near[1]), rounded_pair<T>(near[2], near[3]),
                             rounded_pair<T>(far[0], far[1]), rounded_pair<T>(far[2], far[3])};
#pragma unroll
    for (int n = 0; n < kWidth; n += 16) {
      if (n >= d) break;
      unsigned right[4];
      ldmatrix_x4_trans(right, b + k * kRowPitch<kWidth> + n);
      mma_16x8x16<T>(sums[n / 8], left, {right[0], right[1]});
      mma_16x8x16<T>(sums[n / 8 + 1], left, {right[2], right[3]});
    }
  }
}

// Over the four lanes of a row, for each of them.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

// The first `valid` of the warp's 16 rows become the sums, those of rows g and g + 8 times their factors. room: 16 rows
// of shared memory that only this warp uses.
template <int kWidth, class T>
__device__ __forceinline__ void store_rows(const float (&sums)[kWidth / 8][4], const float (&factors)[2], T* room,
                                           T* to, int64_t stride, int d, int valid) {
  const int lane = lane_of_warp();
  __syncwarp();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    T* row = room + (lane / 4 + 8 * half) * kRowPitch<kWidth> + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const float pair[] = {sums[n][2 * half] * factors[half], sums[n][2 * half + 1] * factors[half]};
      store(pair, row + 8 * n);
    }
  }
  __syncwarp();
  for (int i = lane; i < kWarpRows * (kWidth / 8); i += kWarp) {
    const int r = i / (kWidth / 8), c = i % (kWidth / 8) * 8;
    if (r < valid && c < d)
      *reinterpret_cast<uint4*>(to + r * stride + c) =
          *reinterpret_cast<const uint4*>(room + r * kRowPitch<kWidth> + c);
  }
}

// Which weights of the warp's 16 queries and a tile of kKeys keys, 32 or 64, are kept. Made before the products: it
// takes registers.
template <bool kDropout, int kKeys>
class KeptOfQueries {
 public:
  __device__ KeptOfQueries(const Keep& keep, int query, int key) {
    if constexpr (!kDropout) return;
    const int lane = lane_of_warp();
    const unsigned bits = keep.bits<32>(query + lane / kParts % kWarpRows, key + lane % kParts * 32);  // a part's
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        words_[half][part] = __shfl_sync(kAllLanes, bits, (lane / 4 + half * 8) * kParts + part) >> (lane % 4 * 2);
    }
  }

  // That of sums[n][i].
  __device__ bool at(int n, int i) const { return !kDropout || words_[i / 2][n / 4] >> (n % 4 * 8 + i % 2) & 1; }

 private:
  static constexpr int kParts = kKeys / 32;
  unsigned words_[2][kParts];
};

}  // namespace nmt::cuda
