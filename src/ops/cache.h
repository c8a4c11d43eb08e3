#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

// Caches of decoding: states [capacity, d] whose rows ops write and read by index. In a step row r goes to row slot[r]
// (slot[r] < 0: nowhere), and the hypothesis of row r has the rows entry[r][0 .. length[r]).
namespace nmt {

// Throws unless these are rows [rows, d], a cache of such rows, and which of it a step of decoding writes and reads.
void check_cache(std::string_view op, const Spec& x, const Spec& cache, const Spec& slot, const Spec& entry,
                 const Spec& length);
// The same of attention: queries, keys and values side by side, [rows, 2 keys + values], and the caches of the latter.
void check_key_value_caches(std::string_view op, const Spec& qkv, const Spec& keys, const Spec& values,
                            const Spec& slot, const Spec& entry, const Spec& length);

// Each row of x, from `column` on, becomes its row of the cache.
void write_cache(const Tensor& x, int64_t column, const Tensor& cache, const int32_t* slot);
// Keys and values to theirs.
void write_key_value_caches(const Tensor& qkv, const Tensor& keys, const Tensor& values, const int32_t* slot);

}  // namespace nmt
