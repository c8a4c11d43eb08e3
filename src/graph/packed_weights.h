#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "backend/cpu/gemm.h"
#include "tensor/tensor.h"

namespace nmt {

// Parameter matrices in the layout of matrix products, packed when they are first needed. Several runtimes may share
// them; any thread may ask.
class PackedWeights {
 public:
  // int8: products with parameters are computed in kI8, whatever the activations are.
  explicit PackedWeights(bool int8) : int8_(int8) {}

  // Called with the values that have been packed, in the packing thread: by several at a time.
  std::function<void(std::span<const float>)> on_packed;

  bool int8() const { return int8_; }

  // B of products x * B with activations of dtype t, which kI8 replaces where int8 was asked for: w^T of a parameter
  // matrix w [n, k] (float32) or, if `transposed`, w itself, for the gradient of x. The reference is good until the
  // weight is forgotten or asked for again in another dtype or, after parameters_changed(), in any, transposed or not.
  // Only who needs the same weight waits while it is packed.
  const cpu::PackedMatrix& get(ThreadPool& pool, const Tensor& w, DType t, bool transposed);
  // What is packed is out of date: get() packs again. Nobody else may use the weights meanwhile.
  void parameters_changed() { ++version_; }

  // What was packed of these values is not needed any more, by anybody.
  void forget(const void* data);

  int64_t bytes() const;

 private:
  struct Way {
    uint64_t version = 0;  // 0: never packed, or not to the end
    cpu::PackedMatrix matrix;
  };
  struct Packed {
    mutable std::mutex mutex;
    Way plain, transposed;
  };
  struct Key {
    const void* data;
    int64_t rows, columns;
    auto operator<=>(const Key&) const = default;
  };

  Packed& entry_of(const Key& key);

  bool int8_;
  uint64_t version_ = 1;
  mutable std::mutex mutex_;  // of the map; entries stay where they are
  std::map<Key, Packed> packed_;
};

}  // namespace nmt
