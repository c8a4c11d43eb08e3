#include "text/vocab_counts.h"

#include <algorithm>

namespace nmt {

std::vector<std::pair<std::string, int64_t>> by_count(const WordCounts& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return sorted;
}

}  // namespace nmt
