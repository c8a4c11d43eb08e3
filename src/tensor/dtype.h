#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nmt {

enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI8, kU8, kI32, kI64 };

inline constexpr int kDTypeCount = static_cast<int>(DType::kI64) + 1;

// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return 1;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
  }
  return 0;  // not reached
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF64:
      return "f64";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
  }
  return "";  // not reached
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF64;
}

}  // namespace nmt
