#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nmt {

// How often each word occurs.
using WordCounts = std::unordered_map<std::string, int64_t>;

// The entries by falling count, equal counts by the order of their bytes: the only way to go through counts, so that
// nothing depends on the order inside a hash table.
std::vector<std::pair<std::string, int64_t>> by_count(const WordCounts& counts);

}  // namespace nmt
