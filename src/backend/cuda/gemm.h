#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/device.h"
#include "tensor/arguments.h"
#include "tensor/dtype.h"

// Matrix products on a device: cuBLASLt's, or in the emulation plain loops. Operands of kF32, kBF16 or kF16, sums in
// float32. Where cuBLASLt knows no product with such a bias or activation, other kernels add and apply them.
namespace nmt::cuda {

struct Product {
  bool transpose_a = false, transpose_b = false;  // the operand is stored as [k, m] or [n, k]
  int64_t m = 0, n = 0, k = 0;
  DType t = DType::kF32, ty = DType::kF32;  // of a and b; of y
  bool accumulate = false;                  // y += instead of y =
  const void* bias = nullptr;               // [n] of dtype ty, added to each row before the activation; k > 0
  Activation activation = Activation::kNone;
  int64_t count = 1;  // of products; operands follow one another without gaps
};

// y [count, m, n] = activation(a [count, m, k] * b [count, k, n] + bias), row-major.
class Products {
 public:
  explicit Products(Device& device);  // UnsuitableDevice where cuBLASLt is not to be found
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  void multiply(const Product& p, const void* a, const void* b, void* y);

  bool tf32 = false;  // float32 operands may be rounded to TF32: 10 bits of mantissa

 private:
  // Null, or why there is no such product.
  const char* begin(const Product& p, const void* a, const void* b, void* y);

  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
  Device& device_;
};

}  // namespace nmt::cuda
