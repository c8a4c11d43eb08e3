#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nmt {

using WordCounts = std::unordered_map<std::string, int64_t>;

// The entries by falling count, equal counts by the order of their bytes:
// the only way to go through counts, so that nothing depends on the order inside a hash table.
std::vector<std::pair<std::string, int64_t>> by_count(const WordCounts& counts);

// Lower case by Unicode's full mapping without a language's special rules; malformed UTF-8 becomes U+FFFD.
std::string lowercase(std::string_view text);

}  // namespace nmt
