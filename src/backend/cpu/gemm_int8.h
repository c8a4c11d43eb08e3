#pragma once

#include <span>
#include <vector>

#include "backend/cpu/gemm.h"

// The products of gemm.h with a B of kI8; see there.
namespace nmt::cpu {

bool int8_has_panels(const PackedMatrix& b);  // see column_block
void multiply_int8(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
                   const Epilogue& e);
// Rows of x as the products read them, in the calling thread.
void quantise_int8(const PackedMatrix& b, int64_t m, DType tx, const void* x, AlignedVector<uint8_t>& bytes,
                   std::vector<RowScale>& scales);
void multiply_block_int8(const PackedMatrix& b, int64_t begin, int64_t end, std::span<const uint8_t> bytes,
                         std::span<const RowScale> scales, int64_t row, int64_t m, float* y);

}  // namespace nmt::cpu
