#pragma once

#include <cstdint>

// What all kinds of matrix products have in common; see gemm.h.
namespace nmt::cpu {

inline constexpr int64_t kPanel = 64;  // columns of B that are packed together
inline constexpr int64_t kLine = 64;   // bytes of a line of the cache

enum class Activation : uint8_t { kNone, kRelu };

struct Epilogue {
  const float* bias = nullptr;  // [N], added to each row
  Activation activation = Activation::kNone;
  bool accumulate = false;  // y += instead of y =
};

}  // namespace nmt::cpu
