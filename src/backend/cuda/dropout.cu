#include "backend/cuda/kernels.h"
#include "backend/cuda/philox.cuh"

namespace nmt::cuda {
namespace {

template <int N, class T>
__global__ void dropout_kernel(Dropout d, int64_t n, const T* x, T* y) {
  const int64_t first = N * global_thread();
  if (first >= n) return;
  float v[N];
  load(x + first, n - first, v);
  drop(d, first, v);
  store(v, n - first, y + first);
}

}  // namespace

void dropout(Stream s, DType t, const Dropout& d, int64_t n, const void* x, void* y) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(x, y), [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      launch("dropout", s, flat_grid(n, N), dropout_kernel<N, T>, d, n, static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
}

}  // namespace nmt::cuda
