#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_cached.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/few_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

void attention_cached(DType t, const AttentionOverCache& a, int64_t item_begin, int64_t item_end, const void* q,
                      const void* k_cache, const void* v_cache, void* out) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t item = item_begin; item < item_end;) {
      const int64_t row = item / a.heads, head = item % a.heads, count = cached_keys_seen(a.length[row], a.window);
      const FewQueries sizes{std::min<int64_t>(a.heads - head, item_end - item), a.d_k, a.d_v};
      const FewQueries::Arrays arrays = sizes.arrays(count);
      load_rows(static_cast<const T*>(q) + row * a.q_stride + head * a.d_k, a.d_k, sizes.heads, sizes.heads, a.d_k,
                a.scale, arrays.queries);
      const int32_t* entries = a.entry + row * a.entry_stride + a.length[row] - count;
      attend_to_rows<1>(sizes, 0, RowsByEntry<T>{static_cast<const T*>(k_cache) + head * a.d_k, a.k_stride, entries},
                        RowsByEntry<T>{static_cast<const T*>(v_cache) + head * a.d_v, a.v_stride, entries}, count,
                        arrays);
      store_attended(sizes, arrays, static_cast<T*>(out) + row * a.out_stride + head * a.d_v, a.out_stride);
      item += sizes.heads;
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_cached);

void attention_cached(DType t, const AttentionOverCache& a, int64_t item_begin, int64_t item_end, const void* q,
                      const void* k_cache, const void* v_cache, void* out) {
  HWY_DYNAMIC_DISPATCH(attention_cached)
  (t, a, item_begin, item_end, q, k_cache, v_cache, out);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
