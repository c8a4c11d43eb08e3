#include <stdexcept>
#include <string>

#include "backend/cuda/kernels.h"
#include "backend/cuda/philox.cuh"
#include "backend/cuda/rows.cuh"
#include "backend/cuda/sums.cuh"

// A row stays in the registers of its team: each thread has kGroups of N elements of it. What lies behind the end of
// the row is read from the row's last group, so that no branch stands between loads.
namespace nmt::cuda {
namespace {

constexpr int kThreads = 512;   // of a team, at most
constexpr int kChunkRows = 24;  // of partial sums; few, so that 25,000 rows keep all of a large device busy to the end

template <int N>
constexpr int kGroups = N == 1 ? 8 : 2;

template <int N>
Team team_of(int64_t width) {
  constexpr int kElements = kGroups<N> * N;
  static_assert(kElements * kThreads >= kWidestLayerNormOfDevices);
  if (width > kElements * kThreads) throw std::logic_error("layer norm of rows of " + std::to_string(width));
  return {width, kElements, kThreads};
}

// The mean deviation from the first mean corrects it, and the mean square deviation, so that nothing cancels, however
// large a common offset is.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    add_dropout_layer_norm_kernel(Team team, int64_t rows, int64_t width, const T* x, const T* y, Dropout d,
                                  const float* scale, const float* bias, float eps, T* sums, T* out, float* stats) {
  const int64_t r = team.row();
  if (r >= rows) return;
  const int64_t row = r * width;
  const int lane = team.lane() * N, step = team.lanes() * N;
  const auto count = static_cast<float>(width);

  float z[kGroups<N>][N], added[kGroups<N>][N];
  float sum = 0;
#pragma unroll
  for (int g = 0; g < kGroups<N>; ++g) {
    const int64_t at = row + min(lane + g * step, static_cast<int>(width) - N);
    load(x + at, z[g]);
    if (y != nullptr) load(y + at, added[g]);
  }
#pragma unroll
  for (int g = 0; g < kGroups<N>; ++g) {
    const int c = lane + g * step;
    if (c >= width) break;
    if (y != nullptr) {
      drop(d, row + c, added[g]);
#pragma unroll
      for (int i = 0; i < N; ++i) z[g][i] += added[g][i];
    }
#pragma unroll
    for (int i = 0; i < N; ++i) sum += z[g][i];
    if (sums != nullptr) store(z[g], sums + row + c);
  }
  float mean = team.sum(sum) / count;

  float deviation = 0, square = 0;
#pragma unroll
  for (int g = 0; g < kGroups<N>; ++g) {
    if (lane + g * step >= width) break;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float v = z[g][i] - mean;
      deviation += v;
      square += v * v;
    }
  }
  team.add_up(deviation, square);
  deviation /= count;
  mean += deviation;
  const float inverse = 1 / sqrtf(fmaxf(square / count - deviation * deviation, 0) + eps);
  if (lane == 0) {
    stats[2 * r] = mean;
    stats[2 * r + 1] = inverse;
  }
#pragma unroll
  for (int g = 0; g < kGroups<N>; ++g) {
    const int c = lane + g * step;
    if (c >= width) break;
    float a[N], b[N];
    load(scale + c, a);
    load(bias + c, b);
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = fmaf((z[g][i] - mean) * inverse, a[i], b[i]);
    store(a, out + row + c);
  }
}

// With n = (z - mean) / sigma and g = dout * scale: dz = (g - mean(g) - n * mean(g * n)) / sigma. A block goes over a
// chunk of rows and leaves the sums over it of dout * n, and behind them of dout.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_kernel(Team team, int64_t rows, int64_t width, const T* dout, const T* sums, const float* stats,
                               const float* scale, Dropout d, T* dx, T* dy, float* partial) {
  const int lane = team.lane() * N, step = team.lanes() * N;
  const auto count = static_cast<float>(width);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kChunkRows, end = min(begin + kChunkRows, rows);

  float dscale[kGroups<N>][N] = {}, dbias[kGroups<N>][N] = {};
  for (int64_t r = begin + team.index(); r < end; r += team.count()) {
    const int64_t row = r * width;
    const float mean = stats[2 * r], inverse = stats[2 * r + 1];
    float normal[kGroups<N>][N], gradient[kGroups<N>][N];
#pragma unroll
    for (int g = 0; g < kGroups<N>; ++g) {
      const int64_t at = row + min(lane + g * step, static_cast<int>(width) - N);
      load(sums + at, normal[g]);
      load(dout + at, gradient[g]);
    }
    if (const int64_t next = r + team.count(); next < end) {
#pragma unroll
      for (int g = 0; g < kGroups<N>; ++g) {
        const int64_t at = next * width + min(lane + g * step, static_cast<int>(width) - N);
        prefetch(sums + at);
        prefetch(dout + at);
      }
    }
    float mean_g = 0, mean_gn = 0;
#pragma unroll
    for (int g = 0; g < kGroups<N>; ++g) {
      const int c = lane + g * step;
      if (c >= width) break;
      float a[N];
      load(scale + c, a);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        normal[g][i] = (normal[g][i] - mean) * inverse;
        dscale[g][i] += gradient[g][i] * normal[g][i];
        dbias[g][i] += gradient[g][i];
        gradient[g][i] *= a[i];
        mean_g += gradient[g][i];
        mean_gn += gradient[g][i] * normal[g][i];
      }
    }
    team.add_up(mean_g, mean_gn);
    mean_g /= count;
    mean_gn /= count;
#pragma unroll
    for (int g = 0; g < kGroups<N>; ++g) {
      const int c = lane + g * step;
      if (c >= width) break;
      float dz[N];
#pragma unroll
      for (int i = 0; i < N; ++i) dz[i] = inverse * (gradient[g][i] - mean_g - normal[g][i] * mean_gn);
      store(dz, dx + row + c);
      if (dy == nullptr) continue;
      drop(d, row + c, dz);
      store(dz, dy + row + c);
    }
  }

  float* chunk = partial + blockIdx.x * 2 * width;
  auto* room = shared_memory<float>();  // [team][dscale or dbias][column]
  const bool alone = team.count() == 1;
#pragma unroll
  for (int g = 0; g < kGroups<N>; ++g) {
    const int c = lane + g * step;
    if (c >= width) break;
    store(dscale[g], (alone ? chunk : room + 2 * team.index() * width) + c);
    store(dbias[g], (alone ? chunk : room + 2 * team.index() * width) + width + c);
  }
  if (alone) return;
  __syncthreads();
  for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x) {
    float all = 0;
    for (int t = 0; t < team.count(); ++t) all += room[2 * t * width + c];
    chunk[c] = all;
  }
}

}  // namespace

void add_dropout_layer_norm(Stream s, DType t, int64_t rows, int64_t width, const void* x, const void* y,
                            const Dropout& d, const float* scale, const float* bias, float eps, void* sum, void* out,
                            float* stats) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(x, y, scale, bias, sum, out) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Team team = team_of<N>(width);
      launch("add_dropout_layer_norm", s, team.grid(rows), add_dropout_layer_norm_kernel<N, T>, team, rows, width,
             static_cast<const T*>(x), static_cast<const T*>(y), d, scale, bias, eps, static_cast<T*>(sum),
             static_cast<T*>(out), stats);
    });
  });
}

int64_t layer_norm_room(int64_t rows, int64_t width) { return 2 * divide_up(rows, kChunkRows) * width; }

void layer_norm_backward(Stream s, DType t, int64_t rows, int64_t width, const void* dout, const void* sum,
                         const float* stats, const float* scale, const Dropout& d, void* dx, void* dy, float* room,
                         float* dscale, float* dbias) {
  const int64_t chunks = divide_up(rows, kChunkRows);
  with_type(t, [&](auto type) {
    with_vectors(aligned(dout, sum, scale, dx, dy, room) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Team team = team_of<N>(width);
      Grid grid = team.grid(rows);
      grid.x = chunks;
      if (team.count() > 1) grid.shared = static_cast<size_t>(2 * team.count() * width) * sizeof(float);
      launch("layer_norm_backward", s, grid, layer_norm_backward_kernel<N, T>, team, rows, width,
             static_cast<const T*>(dout), static_cast<const T*>(sum), stats, scale, d, static_cast<T*>(dx),
             static_cast<T*>(dy), room);
    });
  });
  add_partial_sums(s, chunks, 2 * width, room, DType::kF32, {width, dscale, dbias}, true);
}

}  // namespace nmt::cuda
