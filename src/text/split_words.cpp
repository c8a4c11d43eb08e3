#include "text/split_words.h"

#include <algorithm>

namespace nmt {

std::vector<std::string_view> split_words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(separators); begin != text.npos;) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
  return words;
}

}  // namespace nmt
