#include "backend/cuda/kernels.h"
#include "backend/cuda/vectors.cuh"

namespace nmt::cuda {
namespace {

// y = f(x) and y = f(a, b), element by element.
template <int N, class T, class U, class F>
__global__ void map_kernel(F f, int64_t n, const T* x, U* y) {
  const int64_t first = N * global_thread();
  if (first >= n) return;
  float v[N];
  load(x + first, n - first, v);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = f(v[i]);
  store(v, n - first, y + first);
}

template <int N, class T, class F>
__global__ void map_pairs_kernel(F f, int64_t n, const T* a, const T* b, T* y) {
  const int64_t first = N * global_thread();
  if (first >= n) return;
  float u[N], v[N];
  load(a + first, n - first, u);
  load(b + first, n - first, v);
#pragma unroll
  for (int i = 0; i < N; ++i) u[i] = f(u[i], v[i]);
  store(u, n - first, y + first);
}

template <class T, class U, class F>
void map(const char* name, Stream s, F f, int64_t n, const void* x, void* y) {
  with_vectors(aligned(x, y), [&](auto size) {
    constexpr int N = size;
    launch(name, s, flat_grid(n, N), map_kernel<N, T, U, F>, f, n, static_cast<const T*>(x), static_cast<U*>(y));
  });
}

template <class T, class F>
void map(const char* name, Stream s, F f, int64_t n, const void* a, const void* b, void* y) {
  with_vectors(aligned(a, b, y), [&](auto size) {
    constexpr int N = size;
    launch(name, s, flat_grid(n, N), map_pairs_kernel<N, T, F>, f, n, static_cast<const T*>(a),
           static_cast<const T*>(b), static_cast<T*>(y));
  });
}

// ---- functions ------------------------------------------------------------------------------------------------------
struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }  // NaN stays NaN
};

struct ReluBackward {
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};

// The standard normal distribution function Phi(x) and e^(-x^2 / 2), as backend/cpu/elementwise.cpp explains.
struct Normal {
  float distribution, exponential;
};

__device__ __forceinline__ Normal normal(float x) {
  const float exponential = expf(x * x * -0.5f);
  const float t = 1 / fmaf(fabsf(x), 0.3f, 1);
  float p = fmaf(t, 0.038378279f, -0.16916606f);
  p = fmaf(p, t, 0.22865999f);
  p = fmaf(p, t, -0.076506381f);
  p = fmaf(p, t, 0.14253546f);
  p = fmaf(p, t, 0.094683546f);
  p = fmaf(p, t, 0.12192034f);
  p = fmaf(p, t, 0.11948769f);
  p = fmaf(p, t, 7.1688443e-6f);
  const float tail = p * exponential;
  return {x < 0 ? tail : 1 - tail, exponential};
}

struct Gelu {
  __device__ float operator()(float x) const { return x * normal(x).distribution; }
};

// d/dx x Phi(x) = Phi(x) + x phi(x), with phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
struct GeluBackward {
  __device__ float operator()(float x, float dy) const {
    const Normal n = normal(x);
    return dy * fmaf(x, n.exponential * 0.398942280f, n.distribution);
  }
};

__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

struct Silu {
  __device__ float operator()(float x) const { return x * sigmoid(x); }
};

// d/dx x s(x) = s + x s (1 - s)
struct SiluBackward {
  __device__ float operator()(float x, float dy) const {
    const float s = sigmoid(x);
    return dy * fmaf(x * s, 1 - s, s);
  }
};

struct Times {
  __device__ float operator()(float a, float b) const { return a * b; }
};

struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};

struct Same {
  __device__ float operator()(float x) const { return x; }
};

// ---- others ---------------------------------------------------------------------------------------------------------
template <int N, class T, class U>
__global__ void add_kernel(int64_t n, int64_t period, const T* a, const U* b, T* y) {
  const int64_t first = N * global_thread();
  if (first >= n) return;
  float u[N], v[N];
  load(a + first, n - first, u);
  load(b + (period == n ? first : first % period), n - first, v);
#pragma unroll
  for (int i = 0; i < N; ++i) u[i] += v[i];
  store(u, n - first, y + first);
}

template <int N, class T>
__global__ void fill_kernel(int64_t n, float value, T* y) {
  const int64_t first = N * global_thread();
  if (first >= n) return;
  float v[N];
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = value;
  store(v, n - first, y + first);
}

}  // namespace

void apply(Stream s, DType t, Function f, int64_t n, const void* x, void* y) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    switch (f) {
      case Function::kRelu:
        return map<T, T>("relu", s, Relu(), n, x, y);
      case Function::kGelu:
        return map<T, T>("gelu", s, Gelu(), n, x, y);
      case Function::kSilu:
        return map<T, T>("silu", s, Silu(), n, x, y);
    }
  });
}

void apply_backward(Stream s, DType t, Function f, int64_t n, const void* known, const void* dy, void* dx) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    switch (f) {
      case Function::kRelu:
        return map<T>("relu_backward", s, ReluBackward(), n, known, dy, dx);
      case Function::kGelu:
        return map<T>("gelu_backward", s, GeluBackward(), n, known, dy, dx);
      case Function::kSilu:
        return map<T>("silu_backward", s, SiluBackward(), n, known, dy, dx);
    }
  });
}

void add(Stream s, DType t, DType tb, int64_t n, int64_t period, const void* a, const void* b, void* y) {
  with_type(t, [&](auto type) {
    with_type(tb, [&](auto type_b) {
      with_vectors(aligned(a, b, y) && (period == n || period % kVector == 0), [&](auto size) {
        using T = decltype(type);
        using U = decltype(type_b);
        constexpr int N = size;
        launch("add", s, flat_grid(n, N), add_kernel<N, T, U>, n, period, static_cast<const T*>(a),
               static_cast<const U*>(b), static_cast<T*>(y));
      });
    });
  });
}

void multiply(Stream s, DType t, int64_t n, const void* a, const void* b, void* y) {
  with_type(t, [&](auto type) { map<decltype(type)>("multiply", s, Times(), n, a, b, y); });
}

void scale(Stream s, DType t, int64_t n, const void* x, float factor, void* y) {
  with_type(t, [&](auto type) {
    using T = decltype(type);
    map<T, T>("scale", s, Scale{factor}, n, x, y);
  });
}

void convert(Stream s, DType from, const void* x, DType to, void* y, int64_t n) {
  with_type(from, [&](auto from_type) {
    with_type(to, [&](auto to_type) { map<decltype(from_type), decltype(to_type)>("convert", s, Same(), n, x, y); });
  });
}

void fill(Stream s, DType t, int64_t n, float value, void* y) {
  with_type(t, [&](auto type) {
    with_vectors(aligned(y), [&](auto size) {
      using T = decltype(type);
      constexpr int N = size;
      launch("fill", s, flat_grid(n, N), fill_kernel<N, T>, n, value, static_cast<T*>(y));
    });
  });
}

}  // namespace nmt::cuda
