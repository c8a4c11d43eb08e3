#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/embed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void embed(DType t, Rows rows, int64_t width, const float* table, const int32_t* ids, const float* encodings,
           const int32_t* positions, float factor, const Dropout& dropout, void* out) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const auto scale = hn::Set(d, factor);
    DropoutLanes lanes(dropout, rows.end * width);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t first = r * width;
      T* result = static_cast<T*>(out) + first;
      const float* encoding = encodings + positions[r] * width;
      if (ids[r] < 0) {
        for_each_dropped(d, lanes, first, width, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
          store(d, drop(load(d, encoding + i, n)), result + i, n);
        });
      } else {
        const float* embedding = table + ids[r] * width;
        const float* next = r + 1 == rows.end || ids[r + 1] < 0 ? embedding : table + ids[r + 1] * width;
        for_each_dropped(d, lanes, first, width, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
          hwy::Prefetch(next + i);
          store(d, drop(hn::MulAdd(load(d, embedding + i, n), scale, load(d, encoding + i, n))), result + i, n);
        });
      }
    }
  });
}

void embed_backward(DType t, Rows sorted, int64_t width, const void* dout, const int32_t* ids, const int32_t* order,
                    float factor, const Dropout& dropout, float* dtable) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const auto scale = hn::Set(d, factor);
    DropoutLanes lanes(dropout);
    for (int64_t s = sorted.begin; s < sorted.end; ++s) {
      const int64_t r = order[s], first = r * width;
      if (ids[r] < 0) continue;
      const T* gradient = static_cast<const T*>(dout) + first;
      const T* next = static_cast<const T*>(dout) + (s + 1 == sorted.end ? first : order[s + 1] * width);
      float* embedding = dtable + ids[r] * width;
      for_each_dropped(d, lanes, first, width, [&](int64_t i, size_t n, auto drop) HWY_ATTR {
        hwy::Prefetch(next + i);
        const auto g = drop(load(d, gradient + i, n));
        store(d, hn::MulAdd(g, scale, load(d, embedding + i, n)), embedding + i, n);
      });
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(embed);
HWY_EXPORT(embed_backward);

void embed(DType t, Rows rows, int64_t width, const float* table, const int32_t* ids, const float* encodings,
           const int32_t* positions, float factor, const Dropout& d, void* out) {
  HWY_DYNAMIC_DISPATCH(embed)(t, rows, width, table, ids, encodings, positions, factor, d, out);
}

void embed_backward(DType t, Rows sorted, int64_t width, const void* dout, const int32_t* ids, const int32_t* order,
                    float factor, const Dropout& d, float* dtable) {
  HWY_DYNAMIC_DISPATCH(embed_backward)(t, sorted, width, dout, ids, order, factor, d, dtable);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
