#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace nmt {

inline constexpr size_t kAlignment = 64;  // bytes: a cache line and the widest vector

// Memory that begins at a cache line: vectors of 64 bytes that lie across two are read at half the speed. Of megabytes
// it asks for large pages, of which a program touches few. Not set; std::free() gives it back. Null where there is
// none.
void* allocate_aligned(size_t bytes);

// The same for vectors.
template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t n) {
    void* memory = allocate_aligned(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* p, size_t) { std::free(p); }
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
