#include "backend/cuda/kernels.h"
#include "backend/cuda/sums.cuh"
#include "backend/cuda/vectors.cuh"

// Sums in an order that only the sizes decide.
namespace nmt::cuda {
namespace {

// ---- over rows ------------------------------------------------------------------------------------------------------
constexpr int kChunkRows = 128, kColumnWarps = 8;

// A block adds up a chunk of rows in 32 * N columns: each warp every eighth row, then the warps' sums.
template <int N, class T>
__global__ void __launch_bounds__(kColumnWarps* kWarp)
    column_sums_kernel(int64_t rows, int64_t width, const T* x, float* partial) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t tile = static_cast<int64_t>(blockIdx.y) * kWarp * N, column = tile + lane * N;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunkRows, end = min(begin + kChunkRows, rows);
  float sum[N] = {};
  if (column < width) {
#pragma unroll 4
    for (int64_t r = begin + warp; r < end; r += kColumnWarps) {
      float v[N];
      load(x + r * width + column, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
  }
  auto* sums = shared_memory<float>();  // [warp][column]
  store(sum, sums + (warp * kWarp + lane) * N);
  __syncthreads();
  const int64_t c = threadIdx.x;
  if (c >= kWarp * N || tile + c >= width) return;
  float all = 0;
  for (int w = 0; w < kColumnWarps; ++w) all += sums[w * kWarp * N + c];
  partial[blockIdx.x * width + tile + c] = all;
}

constexpr int kSumColumns = 8, kSumWarps = 32, kSlices = kWarp / kSumColumns;  // kSlices: of a warp

// Over the lanes of a warp that have the same column.
__device__ __forceinline__ float slice_sum(float x) {
  for (int offset = kSumColumns; offset < kWarp; offset *= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}

// A block adds up 8 columns, of which each warp has four rows at a time; then the warps' sums, eight of them a slice.
template <class T>
__global__ void __launch_bounds__(kSumWarps* kWarp)
    add_partial_sums_kernel(int64_t count, int64_t width, const float* partial, SumsInTwo sums, bool accumulate) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, slice = lane / kSumColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + lane % kSumColumns;
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int64_t r = warp * kSlices + slice; r < count; r += kSumWarps * kSlices) sum += partial[r * width + column];
  }
  sum = slice_sum(sum);
  auto* room = shared_memory<float>();  // [warp][column]
  if (slice == 0) room[warp * kSumColumns + lane] = sum;
  __syncthreads();
  if (warp > 0) return;
  sum = 0;
  for (int w = slice; w < kSumWarps; w += kSlices) sum += room[w * kSumColumns + lane % kSumColumns];
  sum = slice_sum(sum);
  if (slice > 0 || column >= width) return;
  T* to =
      column < sums.split ? static_cast<T*>(sums.first) + column : static_cast<T*>(sums.second) + column - sums.split;
  *to = rounded<T>(accumulate ? to_float(*to) + sum : sum);
}

// ---- over everything, in float64 ------------------------------------------------------------------------------------
constexpr int kChunk = 1 << 14, kThreads = 256, kMostThreads = 1024;

// Over the block, for its first thread.
__device__ __forceinline__ double block_total(double x) {
  auto* room = shared_memory<double>();
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
  __syncthreads();
  double all = 0;
  if (threadIdx.x == 0)
    for (unsigned w = 0; w < blockDim.x / kWarp; ++w) all += room[w];
  return all;
}

template <int N>
__global__ void __launch_bounds__(kThreads) sum_of_squares_kernel(int64_t n, const float* x, double* partial) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunk, end = min(begin + kChunk, n);
  double sum = 0;
#pragma unroll 2
  for (int64_t i = begin + threadIdx.x * N; i < end; i += kThreads * N) {
    float v[N];
    load(x + i, end - i, v);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += static_cast<double>(v[j]) * v[j];
  }
  sum = block_total(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// *sum = *weight (1 where it is null) * the sum of x; one block.
template <class T>
__global__ void __launch_bounds__(kMostThreads) total_kernel(int64_t n, const T* x, const float* weight, T* sum) {
  double all = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) all += x[i];
  all = block_total(all);
  if (threadIdx.x == 0) *sum = static_cast<T>(weight == nullptr ? all : all * *weight);
}

constexpr Grid kOneBlock = {.threads = kMostThreads, .shared = 32 * sizeof(double)};

}  // namespace

int64_t column_sums_room(int64_t rows, int64_t width) { return divide_up(rows, kChunkRows) * width; }

void column_sums(Stream s, DType t, int64_t rows, int64_t width, const void* x, float* room, DType t_sums, void* sums,
                 bool accumulate) {
  const int64_t chunks = divide_up(rows, kChunkRows);
  with_type(t, [&](auto type) {
    with_vectors(aligned(x) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Grid grid = {.x = chunks,
                         .y = divide_up(width, kWarp * N),
                         .threads = kColumnWarps * kWarp,
                         .shared = kColumnWarps * kWarp * N * sizeof(float)};
      launch("column_sums", s, grid, column_sums_kernel<N, T>, rows, width, static_cast<const T*>(x), room);
    });
  });
  add_partial_sums(s, chunks, width, room, t_sums, {width, sums, nullptr}, accumulate);
}

void add_partial_sums(Stream s, int64_t count, int64_t width, const float* partial, DType t_sums, const SumsInTwo& sums,
                      bool accumulate) {
  const Grid grid = {.x = divide_up(width, kSumColumns),
                     .threads = kSumWarps * kWarp,
                     .shared = kSumWarps * kSumColumns * sizeof(float)};
  with_type(t_sums, [&](auto type) {
    launch("add_partial_sums", s, grid, add_partial_sums_kernel<decltype(type)>, count, width, partial, sums,
           accumulate);
  });
}

int64_t sum_of_squares_room(int64_t n) { return divide_up(n, kChunk); }

void sum_of_squares(Stream s, int64_t n, const float* x, double* room, double* sum) {
  const int64_t chunks = divide_up(n, kChunk);
  const Grid grid = {.x = chunks, .threads = kThreads, .shared = kThreads / kWarp * sizeof(double)};
  with_vectors(aligned(x), [&](auto size) {
    constexpr int N = size;
    launch("sum_of_squares", s, grid, sum_of_squares_kernel<N>, n, x, room);
  });
  launch("total_of_squares", s, kOneBlock, total_kernel<double>, chunks, room, nullptr, sum);
}

void weighted_sum(Stream s, int64_t n, const float* x, const float* weight, float* sum) {
  launch("weighted_sum", s, kOneBlock, total_kernel<float>, n, x, weight, sum);
}

}  // namespace nmt::cuda
