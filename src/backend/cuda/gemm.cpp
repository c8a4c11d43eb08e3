#include "backend/cuda/gemm.h"

#include "backend/cuda/kernels.h"
#include "base/error.h"

// What both implementations have in common.
namespace nmt::cuda {

void Products::multiply(const Product& p, const void* a, const void* b, void* y) {
  const int64_t elements = p.count * p.m * p.n;
  if (elements == 0) return;
  if (p.k == 0) {  // which cuBLASLt may refuse, or leave y as it is
    check(p.bias == nullptr, "a bias alone is no product");
    if (!p.accumulate) device_.zero(y, static_cast<size_t>(elements) * size_of(p.ty));
    return;
  }
  const char* refused = nullptr;
  // Where rows of y are not aligned cuBLASLt rounds the product, adds the bias and rounds again.
  const auto row = static_cast<uint64_t>(p.n) * size_of(p.ty);
  const bool rounds_twice =
      p.bias != nullptr && p.ty != DType::kF32 && (reinterpret_cast<uintptr_t>(y) | row) % 16 != 0;
  if (!rounds_twice) {
    refused = begin(p, a, b, y);
    if (refused == nullptr) return;
  }
  // The bias is put where the product is added to it: but for what is there already, that rounds once, as they do
  // together.
  const Stream s = device_.stream();
  Product plain = p;
  plain.activation = Activation::kNone;
  if (plain.bias != nullptr) {
    if (!p.accumulate) device_.zero(y, static_cast<size_t>(elements) * size_of(p.ty));
    add(s, p.ty, p.ty, elements, p.n, y, p.bias, y);
    plain.accumulate = true;
    plain.bias = nullptr;
  }
  const bool is_simpler = p.bias != nullptr || p.activation != Activation::kNone;
  if (is_simpler) refused = begin(plain, a, b, y);
  if (refused != nullptr)
    fail("cuBLASLt: a product [{}, {}] x [{}, {}] of {} into {}: {}", p.m, p.k, p.k, p.n, name_of(p.t), name_of(p.ty),
         refused);
  if (p.activation == Activation::kRelu) apply(s, p.ty, Function::kRelu, elements, y, y);
}

}  // namespace nmt::cuda
