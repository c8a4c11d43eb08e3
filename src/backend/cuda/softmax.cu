#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.cuh"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 512;

// Rows are read twice, the second time from a cache: the exponentials are computed again, which costs less than to keep
// them.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(Team team, bool log, int64_t rows, int64_t width, const T* x, T* y) {
  const int64_t r = team.row();
  if (r >= rows) return;
  x += r * width;
  y += r * width;
  const int begin = team.lane() * N, step = team.lanes() * N;
  Normaliser norm;
  for (int c = begin; c < width; c += step) {
    float v[N];
    load(x + c, v);
    norm.take(v);
  }
  norm.combine(team);
  const float log_sum = norm.sum == 0 ? 0 : logf(norm.sum), inverse = norm.sum == 0 ? 0 : 1 / norm.sum;
  for (int c = begin; c < width; c += step) {
    float v[N];
    load(x + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float shifted = v[i] - norm.largest;
      v[i] = log ? shifted - log_sum : expf(shifted) * inverse;
    }
    store(v, y + c);
  }
}

// dx = y * (dy - sum(y * dy)), or of the logarithm dx = dy - exp(y) * sum(dy)
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(Team team, bool log, int64_t rows, int64_t width, const T* y, const T* dy, T* dx) {
  const int64_t r = team.row();
  if (r >= rows) return;
  y += r * width;
  dy += r * width;
  dx += r * width;
  const int begin = team.lane() * N, step = team.lanes() * N;
  float sum = 0;
  for (int c = begin; c < width; c += step) {
    float p[N], dp[N];
    load(y + c, p);
    load(dy + c, dp);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += log ? dp[i] : p[i] * dp[i];
  }
  sum = team.sum(sum);
  for (int c = begin; c < width; c += step) {
    float p[N], dp[N];
    load(y + c, p);
    load(dy + c, dp);
#pragma unroll
    for (int i = 0; i < N; ++i) dp[i] = log ? dp[i] - expf(p[i]) * sum : p[i] * (dp[i] - sum);
    store(dp, dx + c);
  }
}

Team team_of(int64_t width, int vector) { return {width, 4 * vector, kThreads}; }

}  // namespace

void softmax(Stream s, DType t, bool log, int64_t rows, int64_t width, const void* x, void* y) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(x, y) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Team team = team_of(width, N);
      launch("softmax", s, team.grid(rows), softmax_kernel<N, T>, team, log, rows, width, static_cast<const T*>(x),
             static_cast<T*>(y));
    });
  });
}

void softmax_backward(Stream s, DType t, bool log, int64_t rows, int64_t width, const void* y, const void* dy,
                      void* dx) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(y, dy, dx) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Team team = team_of(width, N);
      launch("softmax_backward", s, team.grid(rows), softmax_backward_kernel<N, T>, team, log, rows, width,
             static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

}  // namespace nmt::cuda
