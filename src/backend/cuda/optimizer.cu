#include "backend/cuda/kernels.h"
#include "backend/cuda/vectors.cuh"

namespace nmt::cuda {
namespace {

__global__ void decide_kernel(UpdateRule rule, const UpdateTotals* totals, Update* update) {
  if (threadIdx.x == 0) *update = nmt::decide(rule, *totals, *update);
}

// p -= rate * (m / correction1) / (sqrt(v / correction2) + eps), with the corrections in `rate` and `root_factor`.
template <int N, class T>
__global__ void adam_kernel(const Update* update, int64_t n, float* g, float* m, float* v, float* p, float* average,
                            T* copy) {
  const int64_t first = N * global_thread(), count = n - first;
  if (count <= 0) return;
  float gradient[N];
  if (!update->made) {
#pragma unroll
    for (int i = 0; i < N; ++i) gradient[i] = 0;
    return store(gradient, count, g + first);
  }
  const Adam a = update->adam;
  const float rate = a.rate / a.correction1, root_factor = 1 / sqrtf(a.correction2);
  float m1[N], v1[N], p1[N];
  load(g + first, count, gradient);
  load(m + first, count, m1);
  load(v + first, count, v1);
  load(p + first, count, p1);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    gradient[i] *= a.grad_scale;
    m1[i] = fmaf(m1[i], a.beta1, gradient[i] * (1 - a.beta1));
    v1[i] = fmaf(v1[i], a.beta2, gradient[i] * gradient[i] * (1 - a.beta2));
    p1[i] -= m1[i] * rate / fmaf(sqrtf(v1[i]), root_factor, a.eps);
    gradient[i] = 0;
  }
  store(gradient, count, g + first);
  store(m1, count, m + first);
  store(v1, count, v + first);
  store(p1, count, p + first);
  if (copy != nullptr) store(p1, count, copy + first);
  if (average == nullptr) return;
  float smooth[N];
  load(average + first, count, smooth);
#pragma unroll
  for (int i = 0; i < N; ++i) smooth[i] = fmaf(p1[i] - smooth[i], a.smoothing, smooth[i]);
  store(smooth, count, average + first);
}

__global__ void add_to_kernel(const float* x, double* sum) {
  if (threadIdx.x == 0) *sum += *x;
}

constexpr Grid kOneWarp = {.threads = kWarp};

}  // namespace

void decide(Stream s, const UpdateRule& rule, const UpdateTotals* totals, Update* update) {
  launch("decide", s, kOneWarp, decide_kernel, rule, totals, update);
}

void adam(Stream s, const Update* update, int64_t n, float* g, float* m, float* v, float* p, float* average,
          DType t_copy, void* copy) {
  with_type(t_copy, [&](auto type) {
    with_vectors<4>(aligned(g, m, v, p, average, copy), [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      launch("adam", s, flat_grid(n, N), adam_kernel<N, T>, update, n, g, m, v, p, average, static_cast<T*>(copy));
    });
  });
}

void add_to(Stream s, const float* x, double* sum) { launch("add_to", s, kOneWarp, add_to_kernel, x, sum); }

}  // namespace nmt::cuda
