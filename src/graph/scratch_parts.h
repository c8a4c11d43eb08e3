#pragma once

#include <cstdint>
#include <utility>

#include "graph/plan.h"

namespace nmt {

// Cuts an op's working memory into aligned parts: gives the place of each in bytes, and how many there are together.
// What the op asks for and where it computes must agree, so one function of it cuts for both.
class ScratchParts {
 public:
  int64_t part(int64_t bytes) { return std::exchange(bytes_, bytes_ + Plan::aligned(bytes)); }
  int64_t floats(int64_t elements) { return part(elements * int64_t{sizeof(float)}); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace nmt
