#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace nmt {

// The number that the text is, all of it: digits, for integers with a sign - at most; for floats as C's in its "C"
// locale, without sign +. None where it is something else or does not fit.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace nmt
