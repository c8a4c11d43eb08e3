#pragma once

#include <string_view>
#include <vector>

namespace nmt {

// Words of a text: separated by ASCII white space (space, tab, carriage return, vertical tab, form feed, newline), none
// empty. The results are parts of `text`.
std::vector<std::string_view> split_words(std::string_view text);

}  // namespace nmt
