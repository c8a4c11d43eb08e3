#pragma once

#include <string>
#include <string_view>

namespace nmt {

// Lower case by Unicode's full mapping, of no particular language: U+0130 becomes two characters, a final capital sigma
// the final small one. Malformed UTF-8 becomes U+FFFD. Throws Error for a text of more than 2^31 bytes.
std::string lowercase(std::string_view text);

}  // namespace nmt
