#include "backend/cuda/kernels.h"
#include "backend/cuda/rows.cuh"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 1024;

// Two passes over a row, the second from a cache, which holds those of two blocks a multiprocessor: sums, then the
// gradient. Logits enter relative to the largest or to the first, so that a common offset costs no bits.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(Team team, int64_t rows, int64_t width, const float* logits, const int32_t* labels,
                         float smoothing, const float* weight, const float* factor, float* loss, float* nll,
                         T* dlogits) {
  const int64_t r = team.row();
  if (r >= rows) return;
  const float* x = logits + r * width;
  T* dx = dlogits == nullptr ? nullptr : dlogits + r * width;
  const int begin = team.lane() * N, step = team.lanes() * N;
  const int32_t label = labels[r];

  float label_loss = 0, smoothed_loss = 0;
  Normaliser norm;
  if (label >= 0) {
    const float label_logit = x[label], pivot = fabsf(x[0]) <= FLT_MAX ? x[0] : 0;
    float shifted = 0;
    for (int c = begin; c < width; c += step) {
      float v[N];
      load(x + c, v);
      norm.take(v);
#pragma unroll
      for (int i = 0; i < N; ++i) shifted += v[i] - pivot;
    }
    norm.combine(team, shifted);
    const float log_sum = logf(norm.sum);
    label_loss = log_sum + (norm.largest - label_logit);
    const float mean_loss = log_sum + ((norm.largest - pivot) - shifted / static_cast<float>(width));
    smoothed_loss = smoothing == 0 ? label_loss : (1 - smoothing) * label_loss + smoothing * mean_loss;
  }
  if (begin == 0) {
    if (loss != nullptr) loss[r] = smoothed_loss;
    if (nll != nullptr) nll[r] = label_loss;
  }
  if (dx == nullptr) return;

  const float scale = label < 0 ? 0 : *weight * (factor == nullptr ? 1 : *factor);
  const float probability = scale / norm.sum, less = scale * (smoothing / static_cast<float>(width));
  for (int c = begin; c < width; c += step) {
    float v[N] = {};
    if (label >= 0) {
      load(x + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = fmaf(__expf(v[i] - norm.largest), probability, -less);
      if (label - c < N && label >= c) {
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (c + i == label) v[i] -= scale * (1 - smoothing);
      }
    }
    store(v, dx + c);
  }
}

}  // namespace

void cross_entropy(Stream s, DType t, int64_t rows, int64_t width, const float* logits, const int32_t* labels,
                   float smoothing, const float* weight, const float* factor, float* loss, float* nll, void* dlogits) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(logits, dlogits) && width % kVector == 0, [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      const Team team(width, 2 * N, kThreads);
      launch("cross_entropy", s, team.grid(rows), cross_entropy_kernel<N, T>, team, rows, width, logits, labels,
             smoothing, weight, factor, loss, nll, static_cast<T*>(dlogits));
    });
  });
}

}  // namespace nmt::cuda
