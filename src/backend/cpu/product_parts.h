#pragma once

#include <cstdint>

#include "tensor/arguments.h"

// What all kinds of matrix products have in common; see gemm.h.
namespace nmt::cpu {

inline constexpr int64_t kPanel = 64;  // columns of B that are packed together
inline constexpr int64_t kLine = 64;   // bytes of a line of the cache
inline constexpr int kTileRows = 6;    // of x, which vectors multiply together

// What the elements that y holds before are to the product.
enum class Held : uint8_t {
  kNothing,
  kAddend,  // y += product
  kRelu,    // the output of ReLU, and the product is its gradient: y = y > 0 ? product : 0
};

struct Epilogue {
  const float* bias = nullptr;  // [N], added to each row
  Activation activation = Activation::kNone;
  Held held = Held::kNothing;
};

}  // namespace nmt::cpu
