#pragma once

#include <cstddef>
#include <cstdint>

// Hints to a processor which lines of memory it will need. The addresses may lie past what is allocated. Inlined
// always: GCC takes a call of a function that only fetches for one without effect, and removes it.
namespace nmt::cpu {

inline const void* address(const void* p, int64_t bytes) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(bytes));
}

// The line `bytes` after p, into the nearest cache.
[[gnu::always_inline]] inline void prefetch(const void* p, int64_t bytes) {
  __builtin_prefetch(address(p, bytes), 0, 3);
}

// Into the second cache, for many lines from memory: there a processor (Zen 4, for one) can wait for more of them at a
// time than for lines of the first one.
[[gnu::always_inline]] inline void prefetch_far(const void* p, int64_t bytes) {
  __builtin_prefetch(address(p, bytes), 0, 2);
}

}  // namespace nmt::cpu
