#pragma once

#include "backend/cuda/device.h"
#include "tensor/dtype.h"

// The end of sums over rows that began with partial sums of fixed chunks of rows.
namespace nmt::cuda {

// Where sums go: those of columns [0, split) to the first, the others to the second.
struct SumsInTwo {
  int64_t split;
  void *first, *second;
};

// sums[c] = (accumulate: sums[c] +) the sum over `count` rows of partial[r][c], rows `width` wide.
void add_partial_sums(Stream s, int64_t count, int64_t width, const float* partial, DType t_sums, const SumsInTwo& sums,
                      bool accumulate);

}  // namespace nmt::cuda
