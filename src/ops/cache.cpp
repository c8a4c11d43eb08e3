#include "ops/cache.h"

#include <algorithm>

#include "base/error.h"
#include "graph/basic_ops.h"

namespace nmt {

void check_cache(std::string_view op, const Spec& x, const Spec& cache, const Spec& slot, const Spec& entry,
                 const Spec& length) {
  check_activation(op, x);
  const int64_t rows = x.shape[0];
  check(x.shape.rank() == 2 && cache.shape.rank() == 2 && cache.shape[1] == x.shape[1] && cache.dtype == x.dtype &&
            slot.shape == Shape{rows} && entry.shape.rank() == 2 && entry.shape[0] == rows &&
            length.shape == Shape{rows} && slot.dtype == DType::kI32 && entry.dtype == DType::kI32 &&
            length.dtype == DType::kI32,
        "{}: {}, cache {}, entries {}", op, x.shape, cache.shape, entry.shape);
}

void check_key_value_caches(std::string_view op, const Spec& qkv, const Spec& keys, const Spec& values,
                            const Spec& slot, const Spec& entry, const Spec& length) {
  check(keys.shape.rank() == 2 && values.shape.rank() == 2 && keys.shape[0] == values.shape[0] &&
            qkv.shape == Shape{qkv.shape[0], 2 * keys.shape[1] + values.shape[1]},
        "{}: qkv {}, caches {} and {}", op, qkv.shape, keys.shape, values.shape);
  for (const Spec* cache : {&keys, &values})
    check_cache(op, {{qkv.shape[0], cache->shape[1]}, qkv.dtype}, *cache, slot, entry, length);
}

void write_cache(const Tensor& x, int64_t column, const Tensor& cache, const int32_t* slot) {
  const int64_t width = cache.shape()[1], stride = x.shape()[1];
  for (int64_t r = 0; r < x.shape()[0]; ++r)
    if (slot[r] >= 0) std::copy_n(x.at(r * stride + column), x.bytes(width), cache.at(slot[r] * width));
}

void write_key_value_caches(const Tensor& qkv, const Tensor& keys, const Tensor& values, const int32_t* slot) {
  write_cache(qkv, keys.shape()[1], keys, slot);
  write_cache(qkv, 2 * keys.shape()[1], values, slot);
}

}  // namespace nmt
