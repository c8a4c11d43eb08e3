#pragma once

#include "backend/cpu/gemm.h"

// The products of gemm.h with a B of kI8; see there.
namespace nmt::cpu {

bool int8_has_panels(const PackedMatrix& b);  // see column_block
void multiply_int8(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
                   const Epilogue& e);
void multiply_block_int8(const PackedMatrix& b, int64_t begin, int64_t end, int64_t m, DType tx, const void* x,
                         float* y);

}  // namespace nmt::cpu
