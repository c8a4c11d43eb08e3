#include "base/json.h"

namespace nmt {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  bool shallow = true;
  using Event = nlohmann::json::parse_event_t;
  const auto within = [&](int around, Event event, nlohmann::json&) {
    if (event == Event::object_start || event == Event::array_start) shallow = shallow && around < kDeepestJson;
    return shallow;
  };
  auto value = nlohmann::json::parse(text, within, false);
  return shallow ? value : nlohmann::json(nlohmann::json::value_t::discarded);
}

std::string json_text(const nlohmann::json& value) { return text_of(value, -1); }
std::string json_text(const nlohmann::ordered_json& value, int indent) { return text_of(value, indent); }

}  // namespace nmt
