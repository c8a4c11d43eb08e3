#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace nmt {

// Index of the first element that is NaN or infinite, -1 if all are finite. The data is aligned to its elements.
int64_t first_not_finite(DType dtype, std::span<const std::byte> data);

// True for the types that convert to float32 without loss: f32, bf16, f16.
constexpr bool fits_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

// Converts elements of such a type; data holds out.size() of them.
void convert_to_float(DType dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace nmt
