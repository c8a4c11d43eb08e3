#pragma once

#include <cstdint>

#include "backend/cpu/attention_items.h"

namespace nmt::cpu {

// c(m, n) = or += sum over k of a(m, k) b(k, n), float32; `vectors` counts the columns in vectors of the instruction
// set. a's elements are read one by one, so both of its strides are free; rows of b and c are contiguous and filled up
// to whole vectors. The sum runs in order of k whatever the blocking.
struct SmallProduct {
  int64_t rows, vectors, depth;
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add = false;
  Triangle triangle = Triangle::kNone;
  int64_t diagonal = 0;
};

}  // namespace nmt::cpu
