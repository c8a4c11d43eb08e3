#include "base/aligned.h"

#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>

namespace nmt {

void* allocate_aligned(size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  // Those that it covers whole, so that it takes no more memory for it.
  constexpr uintptr_t kLargePage = 2 << 20;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (address + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (address + bytes) / kLargePage * kLargePage;
  if (memory != nullptr && begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  return memory;
}

}  // namespace nmt
