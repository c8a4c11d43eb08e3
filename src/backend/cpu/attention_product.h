#pragma once

#include <cstdint>

namespace nmt::cpu {

// What causal attention makes zero, or leaves unread, in a product of a block of queries that begins at query
// `diagonal` of its sentence: query i sees the keys 0 .. i.
enum class Triangle {
  kNone,
  kOutput,  // rows are queries, columns keys: columns n > diagonal + m of c are not needed (they stay undefined)
  kLower,   // rows are queries, the sum is over keys: a(m, k) = 0 where k > diagonal + m
  kUpper,   // rows are keys, the sum is over queries: a(m, k) = 0 where k < m - diagonal
};

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
