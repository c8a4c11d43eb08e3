#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace nmt {

// The number that the text is, all of it: digits, an integer may begin with -; a float is written as in C, but
// does not begin with +. None where it is something else or does not fit.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || rest != end) return std::nullopt;
  return value;
}

}  // namespace nmt
