#include "text/vocab_counts.h"

#include <algorithm>

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include "base/utf8.h"

namespace nmt {

std::vector<std::pair<std::string, int64_t>> by_count(const WordCounts& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return sorted;
}

std::string lowercase(std::string_view text) {
  const std::string repaired = repair_utf8(text);
  std::string result;
  icu::UnicodeString::fromUTF8(repaired).toLower(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

}  // namespace nmt
