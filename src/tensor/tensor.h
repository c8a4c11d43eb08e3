#pragma once

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace nmt {

// What is known of a tensor before it has a place in memory.
struct Spec {
  Shape shape;
  DType dtype = DType::kF32;

  int64_t bytes() const { return shape.elements() * static_cast<int64_t>(size_of(dtype)); }
  bool operator==(const Spec&) const = default;
};

// A dense row-major tensor in memory that somebody else owns.
struct Tensor {
  void* data = nullptr;
  Spec spec;

  const Shape& shape() const { return spec.shape; }
  DType dtype() const { return spec.dtype; }
  int64_t elements() const { return spec.shape.elements(); }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  // Bytes of so many of its elements, and where element `index` lies.
  int64_t bytes(int64_t elements) const { return elements * static_cast<int64_t>(size_of(dtype())); }
  std::byte* at(int64_t index) const { return as<std::byte>() + bytes(index); }
};

}  // namespace nmt
