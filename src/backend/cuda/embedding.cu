#include <algorithm>

#include "backend/cuda/kernels.h"
#include "backend/cuda/philox.cuh"

namespace nmt::cuda {
namespace {

// Threads of a block that has a row of groups of N elements.
int threads_of(int64_t width, int size) {
  return static_cast<int>(std::clamp<int64_t>(divide_up(width, size * kWarp), 1, 8)) * kWarp;
}

template <int N, class T>
__global__ void embed_kernel(int64_t width, const float* table, const int32_t* ids, const float* encodings,
                             const int32_t* positions, float factor, Dropout d, T* out) {
  const int64_t r = blockIdx.x, row = r * width;
  const int64_t id = ids[r], position = positions[r];
  for (int64_t c = threadIdx.x * N; c < width; c += blockDim.x * N) {
    float v[N];
    load(encodings + position * width + c, v);
    if (id >= 0) {
      float embedding[N];
      load(table + id * width + c, embedding);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = fmaf(embedding[i], factor, v[i]);
    }
    drop(d, row + c, v);
    store(v, out + row + c);
  }
}

// ---- the gradient ---------------------------------------------------------------------------------------------------
// Rows are sorted by id. Those of an id are added by a warp, one after the other, where there are at most kShort. A few
// ids, the end of sentences among them, have a large part of all rows: these are shared out among kSlices parts of a
// block, whose sums are added then. The order depends on nothing but the number of the id's rows.
constexpr int kShort = kWarp, kSlices = 32, kSliceLanes = 8;

// embedding += factor * (the dropout of) dout[order[i]], i = begin, begin + step ... < end, at `column`. A few rows are
// read at a time; behind the last one that one again, so that no branch stands between loads.
template <int N, class T>
__device__ __forceinline__ void add_rows(int64_t begin, int64_t end, int step, int64_t width, int64_t column,
                                         const T* dout, const int32_t* order, float factor, const Dropout& d,
                                         float (&embedding)[N]) {
  constexpr int kBatch = 4;
  for (int64_t first = begin; first < end; first += kBatch * step) {
    int64_t at[kBatch];
    float g[kBatch][N];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      at[b] = order[min(first + b * step, end - 1)] * width + column;
      load(dout + at[b], g[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (first + b * step >= end) break;
      drop(d, at[b], g[b]);
#pragma unroll
      for (int i = 0; i < N; ++i) embedding[i] = fmaf(g[b][i], factor, embedding[i]);
    }
  }
}

// A warp for each row of the order; it has work where an id begins.
template <int N, class T>
__global__ void embed_backward_kernel(int64_t rows, int64_t width, const T* dout, const int32_t* ids,
                                      const int32_t* order, float factor, Dropout d, float* dtable) {
  const int64_t begin = global_thread() / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (begin >= rows) return;
  const int32_t id = ids[begin];
  if (id < 0 || (begin > 0 && ids[begin - 1] == id)) return;
  if (begin + kShort < rows && ids[begin + kShort] == id) return;
  const int64_t at = begin + lane;
  const unsigned others = ~__ballot_sync(kAllLanes, at < rows && ids[at] == id);
  const int64_t end = begin + (others == 0 ? kWarp : __ffs(static_cast<int>(others)) - 1);
  for (int64_t c = lane * N; c < width; c += kWarp * N) {
    float embedding[N];
    load(dtable + id * width + c, embedding);
    add_rows(begin, end, 1, width, c, dout, order, factor, d, embedding);
    store(embedding, dtable + id * width + c);
  }
}

// A block for every kShort-th row of the order and kSliceLanes * N columns; it has work where this row is the first
// such row of a long run.
template <int N, class T>
__global__ void __launch_bounds__(kSlices* kSliceLanes, 2)
    embed_backward_long_kernel(int64_t rows, int64_t width, const T* dout, const int32_t* ids, const int32_t* order,
                               float factor, Dropout d, float* dtable) {
  const int64_t inside = static_cast<int64_t>(blockIdx.x) * kShort;
  const int32_t id = ids[inside];
  if (id < 0 || (inside > 0 && ids[inside - kShort] == id)) return;
  int64_t begin = inside, end = rows;
  while (begin > 0 && ids[begin - 1] == id) --begin;
  if (begin + kShort >= rows || ids[begin + kShort] != id) return;
  for (int64_t last = begin + kShort; last + 1 < end;) {  // of the id; `end` is none of its
    const int64_t middle = (last + end) / 2;
    if (ids[middle] == id)
      last = middle;
    else
      end = middle;
  }

  const int slice = threadIdx.x / kSliceLanes, lane = threadIdx.x % kSliceLanes;
  constexpr int kColumns = kSliceLanes * N;
  const int64_t tile = static_cast<int64_t>(blockIdx.y) * kColumns, column = tile + lane * N;
  float sum[N] = {};
  if (column < width) add_rows(begin + slice, end, kSlices, width, column, dout, order, factor, d, sum);
  auto* sums = shared_memory<float>();  // [slice][column]
  store(sum, sums + slice * kColumns + lane * N);
  __syncthreads();
  const int c = threadIdx.x;
  if (c >= kColumns || tile + c >= width) return;
  float embedding = dtable[id * width + tile + c];
  for (int i = 0; i < kSlices; ++i) embedding += sums[i * kColumns + c];
  dtable[id * width + tile + c] = embedding;
}

int64_t aligned_bytes(int64_t bytes) { return round_up(bytes, 256); }
int64_t index_bytes(int64_t rows) { return aligned_bytes(rows * static_cast<int64_t>(sizeof(int32_t))); }

}  // namespace

void embed(Stream s, DType t, int64_t rows, int64_t width, const float* table, const int32_t* ids,
           const float* encodings, const int32_t* positions, float factor, const Dropout& d, void* out) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(table, encodings, out) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Grid grid = {.x = rows, .threads = threads_of(width, N)};
      launch("embed", s, grid, embed_kernel<N, T>, width, table, ids, encodings, positions, factor, d,
             static_cast<T*>(out));
    });
  });
}

int64_t embed_room(int64_t rows) { return 2 * index_bytes(rows) + sort_room(rows); }

void embed_backward(Stream s, DType t, int64_t rows, int64_t width, const void* dout, const int32_t* ids, float factor,
                    const Dropout& d, void* room, float* dtable) {
  auto* bytes = static_cast<std::byte*>(room);
  auto* sorted = reinterpret_cast<int32_t*>(bytes);
  auto* order = reinterpret_cast<int32_t*>(bytes + index_bytes(rows));
  sort_rows(s, rows, ids, bytes + 2 * index_bytes(rows), sorted, order);
  with_type(t, [&](auto type) {
    with_vectors(aligned(dout, dtable) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const auto* gradient = static_cast<const T*>(dout);
      const Grid grid = flat_grid(rows * kWarp, 1);
      launch("embed_backward", s, grid, embed_backward_kernel<N, T>, rows, width, gradient, sorted, order, factor, d,
             dtable);
      const Grid long_grid = {.x = divide_up(rows, kShort),
                              .y = divide_up(width, kSliceLanes * N),
                              .threads = kSlices * kSliceLanes,
                              .shared = kSlices * kSliceLanes * N * sizeof(float)};
      launch("embed_backward_long", s, long_grid, embed_backward_long_kernel<N, T>, rows, width, gradient, sorted,
             order, factor, d, dtable);
    });
  });
}

}  // namespace nmt::cuda
