#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_cached.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/few_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void attention_cached(DType t, int heads, int d_k, int d_v, int window, float scale, int64_t item_begin,
                      int64_t item_end, const void* q, int64_t q_stride, const void* k_cache, int64_t k_stride,
                      const void* v_cache, int64_t v_stride, const int32_t* entry, int64_t entry_stride,
                      const int32_t* length, void* out, int64_t out_stride) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t item = item_begin; item < item_end;) {
      const int64_t row = item / heads, head = item % heads, all = length[row];
      const int64_t count = window > 0 ? std::min<int64_t>(all, window + 1) : all;
      const int64_t k_width = round_up(d_k), v_width = round_up(d_v);
      const FewQueries sizes{std::min<int64_t>(heads - head, item_end - item), d_k, d_v};
      const FewQueries::Arrays arrays = sizes.arrays(count);
      for (int64_t h = 0; h < sizes.heads; ++h) {
        load_rows(static_cast<const T*>(q) + row * q_stride + (head + h) * d_k, q_stride, 1, 1, d_k, scale,
                  arrays.queries + h * k_width);
      }
      const int32_t* entries = entry + row * entry_stride + all - count;
      attend_to_rows<1>(sizes, 0, RowsByEntry<T>{static_cast<const T*>(k_cache) + head * d_k, k_stride, entries},
                        RowsByEntry<T>{static_cast<const T*>(v_cache) + head * d_v, v_stride, entries}, count, arrays);
      for (int64_t h = 0; h < sizes.heads; ++h) {
        store_rows(arrays.sums + h * v_width, 1, d_v, 1.0f, static_cast<T*>(out) + row * out_stride + (head + h) * d_v,
                   out_stride);
      }
      item += sizes.heads;
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_cached);

void attention_cached(DType t, int heads, int d_k, int d_v, int window, float scale, int64_t item_begin,
                      int64_t item_end, const void* q, int64_t q_stride, const void* k_cache, int64_t k_stride,
                      const void* v_cache, int64_t v_stride, const int32_t* entry, int64_t entry_stride,
                      const int32_t* length, void* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(attention_cached)
  (t, heads, d_k, d_v, window, scale, item_begin, item_end, q, q_stride, k_cache, k_stride, v_cache, v_stride, entry,
   entry_stride, length, out, out_stride);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
