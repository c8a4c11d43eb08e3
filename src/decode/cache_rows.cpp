#include "decode/cache_rows.h"

#include <algorithm>

#include "base/math.h"

namespace nmt {
namespace {

constexpr int64_t kStride = 16;  // tables grow in steps, so that plans of the graph repeat
constexpr int64_t kRows = 64;    // so does the cache

}  // namespace

void CacheRows::advance(std::span<const int32_t> parents) {
  std::vector<int32_t> lengths;
  for (const int32_t parent : parents) lengths.push_back(parent < 0 ? 1 : lengths_[static_cast<size_t>(parent)] + 1);
  const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  const int64_t rows = static_cast<int64_t>(parents.size()), stride = round_up(longest, kStride);
  std::vector<int32_t> entry(static_cast<size_t>(rows * stride));
  std::vector<bool> used(static_cast<size_t>(capacity_));
  int64_t in_use = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t parent = parents[static_cast<size_t>(r)];
    if (parent < 0) continue;
    const int32_t* from = entry_.data() + parent * stride_;
    const int64_t past = lengths[static_cast<size_t>(r)] - 1;
    std::copy_n(from, past, entry.data() + r * stride);
    for (int64_t i = 0; i < past; ++i) {
      in_use += !used[static_cast<size_t>(from[i])];
      used[static_cast<size_t>(from[i])] = true;
    }
  }
  // Half as much again: growing means to copy the cache.
  if (in_use + rows > capacity_) capacity_ = round_up(std::max(in_use + rows, capacity_ + capacity_ / 2), kRows);
  used.resize(static_cast<size_t>(capacity_));

  slot_.resize(parents.size());
  int32_t free = 0;
  for (int64_t r = 0; r < rows; ++r, ++free) {
    while (used[static_cast<size_t>(free)]) ++free;
    slot_[static_cast<size_t>(r)] = entry[static_cast<size_t>(r * stride + lengths[static_cast<size_t>(r)] - 1)] = free;
  }
  lengths_ = std::move(lengths);
  entry_ = std::move(entry);
  stride_ = stride;
}

}  // namespace nmt
