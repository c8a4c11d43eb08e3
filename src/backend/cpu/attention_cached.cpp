#include <algorithm>
#include <span>

#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_cached.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/few_queries-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

// The cache entries of the keys that a row sees.
std::span<const int32_t> seen_entries(const AttentionOverCache& a, int64_t row) {
  const int32_t length = a.length[row], count = cached_keys_seen(length, a.window);
  return {a.entry + row * a.entry_stride + length - count, static_cast<size_t>(count)};
}

// Rows from this one on, so many at most, that see as many keys and begin with the same few, as a sentence's hypotheses
// do.
int64_t rows_together(const AttentionOverCache& a, int64_t row, int64_t most) {
  constexpr size_t kFew = 4;
  const auto first = seen_entries(a, row);
  const auto alike = [&](int64_t other) {
    return a.length[other] == a.length[row] &&
           std::ranges::equal(first.first(kFew), seen_entries(a, other).first(kFew));
  };
  int64_t rows = 1;
  while (first.size() > kFew && rows < most && alike(row + rows)) ++rows;
  return rows;
}

}  // namespace

void attention_cached(DType t, const AttentionOverCache& a, int64_t row_begin, int64_t row_end, const void* q,
                      const void* k_cache, const void* v_cache, void* out) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    for (int64_t row = row_begin, rows; row < row_end; row += rows) {
      rows = rows_together(a, row, std::min<int64_t>(row_end - row, kQueriesTogether));
      const auto entries = seen_entries(a, row);
      const auto rows_of = [&](const void* cache, int64_t stride) {
        return RowsByEntry<T>{static_cast<const T*>(cache), stride, entries.data(), a.entry_stride};
      };
      const FewQueries f{a.heads, a.d_k, a.d_v, rows};
      const FewQueries::Arrays x = f.arrays(std::ssize(entries));
      load_queries(f, static_cast<const T*>(q) + row * a.q_stride, a.q_stride, a.scale, x);
      attend_to_rows<kQueriesTogether>(f, 0, rows_of(k_cache, a.k_stride), rows_of(v_cache, a.v_stride),
                                       std::ssize(entries), x);
      store_attended(f, x, static_cast<T*>(out) + row * a.out_stride, a.out_stride);
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(attention_cached);

void attention_cached(DType t, const AttentionOverCache& a, int64_t row_begin, int64_t row_end, const void* q,
                      const void* k_cache, const void* v_cache, void* out) {
  HWY_DYNAMIC_DISPATCH(attention_cached)
  (t, a, row_begin, row_end, q, k_cache, v_cache, out);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
