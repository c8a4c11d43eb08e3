#pragma once

#include "backend/cuda/device.h"
#include "tensor/dtype.h"

// The end of sums over rows that began with partial sums of fixed chunks of rows.
namespace nmt::cuda {

// sums[c] = (accumulate: sums[c] +) the sum over `count` rows of partial[r][c].
void add_partial_sums(Stream s, int64_t count, int64_t width, const float* partial, DType t_sums, void* sums,
                      bool accumulate);

}  // namespace nmt::cuda
