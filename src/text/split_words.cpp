#include "text/split_words.h"

#include <algorithm>

namespace nmt {

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kBlank); begin != text.npos;) {
    const size_t end = std::min(text.find_first_of(kBlank, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlank, end);
  }
  return words;
}

}  // namespace nmt
