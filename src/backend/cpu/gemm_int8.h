#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/thread_pool.h"

// The products of gemm.h with a B of kI8; see there.
namespace nmt::cpu {

// x [m, K] as the products read it, made by the pool's threads or, without one, by the calling thread: a row's bytes
// after the other's (bytes_of_row() each, zero from K on), and their scales [m].
void quantise_int8(ThreadPool* pool, const PackedMatrix& b, int64_t m, DType tx, const void* x,
                   UnsetVector<uint8_t>& bytes, std::vector<RowScale>& scales);

// multiply(): x [m, K], y [m, N], row-major.
void multiply_int8(ThreadPool& pool, const PackedMatrix& b, int64_t m, DType tx, const void* x, DType ty, void* y,
                   const Epilogue& e);
// multiply_block(): y [m, end - begin], row-major, of rows [row, row + m) of what quantise_int8 made.
void multiply_block_int8(const PackedMatrix& b, int64_t begin, int64_t end, std::span<const uint8_t> bytes,
                         std::span<const RowScale> scales, int64_t row, int64_t m, float* y);

}  // namespace nmt::cpu
