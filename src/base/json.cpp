#include "base/json.h"

namespace nmt {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Of a text that is JSON.
bool is_shallow(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{') && ++depth > kDeepestJson)
      return false;
    else if (!in_string && (c == ']' || c == '}'))
      --depth;
  }
  return true;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  // Not by the parser's callback, which looks at all of an object's or list's children at the end of each.
  if (!is_shallow(text)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, false);
}

std::string json_text(const nlohmann::json& value) { return text_of(value, -1); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }

}  // namespace nmt
