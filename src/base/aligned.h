#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace nmt {

// Memory that begins at a cache line: vectors of 64 bytes that lie across two are read at half the speed.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const AlignedAllocator&) const = default;
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

// The same, but new elements are not set: who is about to write them touches their memory first, and in parallel.
template <class T>
struct UnsetAllocator : AlignedAllocator<T> {
  template <class U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };
  UnsetAllocator() = default;
  template <class U>
  UnsetAllocator(const UnsetAllocator<U>&) {}  // NOLINT: allocators convert
  template <class U>
  void construct(U*) {}
};

template <class T>
using UnsetVector = std::vector<T, UnsetAllocator<T>>;

}  // namespace nmt
