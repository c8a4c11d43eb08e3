#pragma once

#include <string>
#include <string_view>
#include <vector>

// Text as the published scorers see it: Python's idea of white space. All strings are UTF-8.
namespace nmt::metrics {

// What str.isspace() of Python holds for white space (so U+0085, U+00A0, U+001C to U+001F, U+3000 too).
bool is_space(char32_t character);

// str.split() and str.rstrip() of Python: the words between white space, none empty, and the text without the white
// space at its end. The results are parts of `text`; malformed bytes are no white space.
std::vector<std::string_view> split_at_spaces(std::string_view text);
std::string_view strip_right(std::string_view text);

// Replaces each `from` (not empty), from left to right; what is put in is not searched.
void replace_all(std::string& text, std::string_view from, std::string_view to);

// One left-to-right pass: each pair of neighbours a, b with first(a) and second(b) becomes
// before + a + between + b + after; matches do not overlap. Bytes or code points alike.
template <class Char, class First, class Second>
std::basic_string<Char> replace_pairs(const std::basic_string<Char>& text, First first, Second second,
                                      std::basic_string_view<Char> before, std::basic_string_view<Char> between,
                                      std::basic_string_view<Char> after) {
  std::basic_string<Char> result;
  result.reserve(text.size() + text.size() / 4);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      result.append(before).append(1, text[i]).append(between).append(1, text[i + 1]).append(after);
      ++i;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

// Splits marks off their neighbours, but for those between two characters of the class.
template <class Char, class Mark, class Class>
std::basic_string<Char> split_marks(const std::basic_string<Char>& text, Mark is_mark, Class in_class) {
  const auto outside = [&](Char c) { return !in_class(c); };
  const Char space = ' ';
  const std::basic_string_view<Char> none, one(&space, 1);
  return replace_pairs(replace_pairs(text, outside, is_mark, none, one, one), is_mark, outside, one, one, none);
}

// Each character of the class gets a space on both sides.
template <class Char, class Class>
std::basic_string<Char> pad(const std::basic_string<Char>& text, Class in_class) {
  std::basic_string<Char> result;
  result.reserve(text.size() + text.size() / 4);
  for (const Char c : text) {
    if (in_class(c))
      result.append(1, ' ').append(1, c).append(1, ' ');
    else
      result.push_back(c);
  }
  return result;
}

}  // namespace nmt::metrics
