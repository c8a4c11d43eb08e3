#pragma once

#include <string_view>
#include <vector>

namespace nmt {

constexpr std::string_view kAsciiSpaces = " \t\r\n\v\f";

// Words of a text, separated by any of these characters, none empty. The results are parts of `text`.
std::vector<std::string_view> split_words(std::string_view text, std::string_view separators = kAsciiSpaces);

}  // namespace nmt
