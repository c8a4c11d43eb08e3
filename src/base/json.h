#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace nmt {

// JSON to and from text: the library's parser and writer are templates, compiled here once.

// Objects and lists within each other that parse_json reads at most: what walks its values may recurse.
constexpr int kDeepestJson = 32;

// is_discarded() where the text is not JSON, or is nested deeper.
nlohmann::json parse_json(std::string_view text);

// On one line, or indented by so many spaces a level. JSON is UTF-8: other bytes become U+FFFD.
std::string json_text(const nlohmann::json& value);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace nmt
