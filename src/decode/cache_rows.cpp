#include "decode/cache_rows.h"

#include <algorithm>

namespace nmt {
namespace {

constexpr int64_t kStride = 16;  // tables grow in steps, so that plans of the graph repeat

}  // namespace

void CacheRows::advance(std::span<const int32_t> parents) {
  const auto rows = static_cast<int64_t>(parents.size());
  const int64_t past = length_++, stride = (length_ + kStride - 1) / kStride * kStride;
  std::vector<int32_t> entry(static_cast<size_t>(rows * stride));
  std::vector<bool> used(static_cast<size_t>(capacity_));
  int64_t in_use = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (past == 0) break;
    const int32_t* from = entry_.data() + parents[static_cast<size_t>(r)] * stride_;
    std::copy_n(from, past, entry.data() + r * stride);
    for (int64_t i = 0; i < past; ++i) {
      in_use += !used[static_cast<size_t>(from[i])];
      used[static_cast<size_t>(from[i])] = true;
    }
  }
  // Half as much again: growing means to copy the cache.
  if (in_use + rows > capacity_) capacity_ = std::max(in_use + rows, capacity_ + capacity_ / 2);
  used.resize(static_cast<size_t>(capacity_));

  slot_.resize(parents.size());
  int32_t free = 0;
  for (int64_t r = 0; r < rows; ++r, ++free) {
    while (used[static_cast<size_t>(free)]) ++free;
    slot_[static_cast<size_t>(r)] = entry[static_cast<size_t>(r * stride + past)] = free;
  }
  lengths_.assign(parents.size(), static_cast<int32_t>(length_));
  entry_ = std::move(entry);
  stride_ = stride;
}

}  // namespace nmt
