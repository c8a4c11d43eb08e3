#include "backend/cpu/kernels.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// Rows that go on together: the sum of a row is known only long after its last element was added, and the next rows'
// need not wait for that. As many as stay in L1 as float32.
constexpr int64_t kMostTogether = 8;

int64_t rows_together(int64_t width) {
  constexpr int64_t kElements = 4096;
  return std::clamp<int64_t>(kElements / std::max<int64_t>(1, width), 1, kMostTogether);
}

// Rows are read once, written once, and stay in L1 as float32 (`z`) between the passes over them. The mean is corrected
// by the mean deviation from it, which rounding alone makes differ from zero; so the mean square deviation, less the
// square of that, is the variance, and nothing cancels, however large a common offset is.
void add_dropout_layer_norm(DType t, Rows rows, int64_t width, const void* x, const void* y, const Dropout& dropout,
                            const float* scale, const float* bias, float eps, void* sums, void* out, float* stats) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const int64_t together = rows_together(width);
    thread_local Scratch scratch;
    auto* const buffer = reinterpret_cast<float*>(scratch.get(static_cast<size_t>(together * width) * sizeof(float)));
    const auto count = static_cast<float>(width);
    DropoutLanes lanes(dropout, rows.end * width);
    for (int64_t begin = rows.begin; begin < rows.end; begin += together) {
      const int64_t end = std::min(begin + together, rows.end);
      const auto row_of_z = [&](int64_t r) HWY_ATTR { return buffer + (r - begin) * width; };
      const auto deviation = [&](const float* z, float mean, int64_t i, size_t n)
                                 HWY_ATTR { return hn::Sub(load_or(d, mean, z + i, n), hn::Set(d, mean)); };

      for (int64_t r = begin; r < end; ++r) {
        const int64_t first = r * width;
        const T* xr = static_cast<const T*>(x) + first;
        float* z = row_of_z(r);
        if (y == nullptr) {
          for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR { store(d, load_ahead(d, xr + i, n), z + i, n); });
        } else {
          const T* yr = static_cast<const T*>(y) + first;
          for_each_dropped(d, lanes, first, width, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
            store(d, hn::Add(load_ahead(d, xr + i, n), drop(load_ahead(d, yr + i, n))), z + i, n);
          });
        }
        stats[2 * r] = sum(d, width, [&](int64_t i, size_t n) HWY_ATTR { return load(d, z + i, n); }) / count;
      }

      for (int64_t r = begin; r < end; ++r) {
        const float* z = row_of_z(r);
        const float mean = stats[2 * r];
        const auto sums_of_v = fold(
            d, width, VectorPair{hn::Zero(d), hn::Zero(d)},
            [&](int64_t i, size_t n) HWY_ATTR {
              const auto v = deviation(z, mean, i, n);
              return VectorPair{v, hn::Mul(v, v)};
            },
            add_pairs);
        const float correction = sum_of_lanes(d, sums_of_v.first) / count;
        const float variance = std::max(sum_of_lanes(d, sums_of_v.second) / count - correction * correction, 0.0f);
        stats[2 * r] = mean + correction;
        stats[2 * r + 1] = 1 / std::sqrt(variance + eps);
      }

      for (int64_t r = begin; r < end; ++r) {
        const float *z = row_of_z(r), mean = stats[2 * r];
        const auto factor = hn::Set(d, stats[2 * r + 1]);
        T* result = static_cast<T*>(out) + r * width;
        const auto normalise = [&](int64_t i, size_t n) HWY_ATTR {
          const auto normal = hn::Mul(deviation(z, mean, i, n), factor);
          store_ahead(d, hn::MulAdd(normal, load(d, scale + i, n), load(d, bias + i, n)), result + i, n);
        };
        if (sums == nullptr) {
          for_each(d, width, normalise);
        } else {
          T* saved = static_cast<T*>(sums) + r * width;
          for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
            store_ahead(d, load(d, z + i, n), saved + i, n);
            normalise(i, n);
          });
        }
      }
    }
  });
}

// With n = (z - mean) / sigma and g = dout * scale: dz = (g - mean(g) - n * mean(g * n)) / sigma.
void layer_norm_backward(DType t, Rows rows, int64_t width, const void* dout, const void* sums, const float* stats,
                         const float* scale, const Dropout& dropout, void* dx, void* dy, float* dscale, float* dbias) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const int64_t together = rows_together(width);
    const auto count = static_cast<float>(width);
    DropoutLanes lanes(dropout, rows.end * width);
    const auto normal = [&](VF v, int64_t r) HWY_ATTR {
      return hn::Mul(hn::Sub(v, hn::Set(d, stats[2 * r])), hn::Set(d, stats[2 * r + 1]));
    };
    for (int64_t begin = rows.begin; begin < rows.end; begin += together) {
      const int64_t end = std::min(begin + together, rows.end);
      float means_of_g[kMostTogether], means_of_gn[kMostTogether];
      for (int64_t r = begin; r < end; ++r) {
        const T* gradient = static_cast<const T*>(dout) + r * width;
        const T* z = static_cast<const T*>(sums) + r * width;
        const auto sums_of_g = fold(
            d, width, VectorPair{hn::Zero(d), hn::Zero(d)},
            [&](int64_t i, size_t n) HWY_ATTR {
              const auto dr = load_ahead(d, gradient + i, n), v = normal(load_ahead(d, z + i, n), r);
              const auto g = hn::Mul(dr, load(d, scale + i, n));
              store(d, hn::MulAdd(dr, v, load(d, dscale + i, n)), dscale + i, n);
              store(d, hn::Add(dr, load(d, dbias + i, n)), dbias + i, n);
              return VectorPair{g, hn::Mul(g, v)};  // zero past the end, as dr is
            },
            add_pairs);
        means_of_g[r - begin] = sum_of_lanes(d, sums_of_g.first) / count;
        means_of_gn[r - begin] = sum_of_lanes(d, sums_of_g.second) / count;
      }

      for (int64_t r = begin; r < end; ++r) {
        const int64_t first = r * width;
        const T* gradient = static_cast<const T*>(dout) + first;
        const T* z = static_cast<const T*>(sums) + first;
        const auto mean_g = hn::Set(d, means_of_g[r - begin]), mean_gn = hn::Set(d, means_of_gn[r - begin]),
                   inverse = hn::Set(d, stats[2 * r + 1]);
        const auto input_gradient = [&](int64_t i, size_t n) HWY_ATTR {
          const auto g = hn::Mul(load(d, gradient + i, n), load(d, scale + i, n));
          return hn::Mul(inverse, hn::Sub(hn::Sub(g, mean_g), hn::Mul(normal(load(d, z + i, n), r), mean_gn)));
        };
        T* out = static_cast<T*>(dx) + first;
        if (dy == nullptr) {
          for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR { store_ahead(d, input_gradient(i, n), out + i, n); });
        } else {
          T* dropped = static_cast<T*>(dy) + first;
          for_each_dropped(d, lanes, first, width, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
            const auto dz = input_gradient(i, n);
            store_ahead(d, dz, out + i, n);
            store_ahead(d, drop(dz), dropped + i, n);
          });
        }
      }
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(add_dropout_layer_norm);
HWY_EXPORT(layer_norm_backward);

void add_dropout_layer_norm(DType t, Rows rows, int64_t width, const void* x, const void* y, const Dropout& d,
                            const float* scale, const float* bias, float eps, void* sum, void* out, float* stats) {
  HWY_DYNAMIC_DISPATCH(add_dropout_layer_norm)(t, rows, width, x, y, d, scale, bias, eps, sum, out, stats);
}

void layer_norm_backward(DType t, Rows rows, int64_t width, const void* dout, const void* sum, const float* stats,
                         const float* scale, const Dropout& d, void* dx, void* dy, float* dscale, float* dbias) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward)(t, rows, width, dout, sum, stats, scale, d, dx, dy, dscale, dbias);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
