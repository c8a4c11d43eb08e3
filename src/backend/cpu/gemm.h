#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/dtype.h"

// Matrix products through oneDNN. Each product is cut into blocks of a fixed size that single threads compute with
// oneDNN's sequential code, so the result does not depend on the number of threads. Operands are kF32 or kBF16
// (accumulated in float32). bf16 products need AVX512-BF16 or AMX to be faster than float32: see has_fast_bf16.
namespace nmt::cpu {

enum class Activation : uint8_t { kNone, kRelu };

bool has_bf16();       // oneDNN multiplies bf16 from AVX-512 on
bool has_fast_bf16();  // faster than float32

// The right operand of y = x * B, B [K, N], in oneDNN's own blocked layout.
class PackedMatrix {
 public:
  // w is float32, row-major: [N, K] (so B = w^T, the layer y = x w^T) or, if `transposed`, [K, N] (so B = w: the
  // gradient dx = dy w). Packs in parallel into elements of dtype t; keeps its memory when the sizes stay.
  void pack(ThreadPool& pool, DType t, const float* w, int64_t n, int64_t k, bool transposed);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  DType dtype() const { return dtype_; }
  int64_t bytes() const { return static_cast<int64_t>(data_.size()); }
  const std::byte* data() const { return data_.data(); }

 private:
  DType dtype_ = DType::kF32;
  int64_t n_ = 0, k_ = 0;
  std::vector<std::byte> data_;
};

struct Epilogue {
  const float* bias = nullptr;  // [N], added to each row
  Activation activation = Activation::kNone;
  bool accumulate = false;  // y += instead of y =
};

// y [m, N] (dtype ty) = activation(x [m, K] * B + bias); x has B's dtype.
void multiply(ThreadPool& pool, const PackedMatrix& b, int64_t m, const void* x, DType ty, void* y,
              const Epilogue& epilogue = {});

// The same in the calling thread, for loops that are in parallel already.
void multiply_block(const PackedMatrix& b, int64_t m, const void* x, DType ty, void* y, const Epilogue& epilogue = {});

// dw [n, k] float32 += dy^T x: dy [m, n], x [m, k] of dtype t (the gradient of a layer's weight).
void multiply_transposed(ThreadPool& pool, DType t, int64_t m, int64_t n, int64_t k, const void* dy, const void* x,
                         float* dw);

// c [m, n] = or += a [m, k] * b [k, n], plain row-major operands of dtype t (transposed: stored as [k, m], [n, k]), in
// the calling thread. For small or rare products.
void multiply_plain(DType t, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, DType tc, void* c, bool accumulate);

}  // namespace nmt::cpu
