#pragma once

#include <cstdint>

#include "backend/cuda/device.h"

// Products by one warp through mma.cuh, of row-major matrices in the device's memory.
namespace nmt::testing {

// d [16, 8] += a [16, 16] b [16, 8], of bf16 or float16: fragments as the PTX manual numbers their elements.
void multiply_fragments(cuda::Stream stream, bool half, const uint16_t* a, const uint16_t* b, float* d);

// d [16, 16] = a [16, 16] b [16, 16] of bf16, through copies to shared memory and ldmatrix.
void multiply_from_shared(cuda::Stream stream, const uint16_t* a, const uint16_t* b, float* d);

}  // namespace nmt::testing
