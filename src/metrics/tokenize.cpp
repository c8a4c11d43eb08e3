#include "metrics/tokenize.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unicode/uchar.h>

#include "base/utf8.h"
#include "metrics/unicode.h"
#include "text/lowercase.h"

namespace nmt::metrics {
namespace {

// The next three work on bytes: all that they look for is ASCII, which never is a part of a longer UTF-8 character.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }
bool is_ascii_symbol(char c) {  // all of ASCII's punctuation and the space, without ' , - .
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void decode_entities(std::string& text) {
  if (text.find('&') == std::string::npos) return;
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
}

// Splits off periods and commas but between digits, and a dash after a digit.
std::string split_points(const std::string& text) {
  using View = std::string_view;
  const auto is_dash = [](char c) { return c == '-'; };
  return replace_pairs(split_marks(text, is_point, is_digit), is_digit, is_dash, View(""), View(" "), View(" "));
}

bool in_class(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }

bool is_asian_punctuation(char32_t c) {
  return c == 0x3001 || c == 0x3002 || (c >= 0x3008 && c <= 0x3011) || (c >= 0x3014 && c <= 0x301F) ||
         (c >= 0xFF61 && c <= 0xFF65) || c == 0x30FB;
}

bool is_full_width_punctuation(char32_t c) {
  return c == 0xFF0E || c == 0xFF0C || c == 0xFF1F || c == 0xFF1A || c == 0xFF1B || c == 0xFF01 || c == 0xFF02 ||
         c == 0xFF08 || c == 0xFF09;
}

// Ideographs, strokes, radicals, compatibility forms. 0x3F22 is sacreBLEU's bound where tercom means 0x32FF; the rest
// of it are ideographs. Kana rules exist in both, but they match at the start of a line only, where a space stands.
bool is_cjk(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x31C0 && c <= 0x31EF) ||
         (c >= 0x2E80 && c <= 0x2EFF) || (c >= 0x3200 && c <= 0x3F22) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE4F);
}

// What sacreBLEU takes for Chinese. It writes the planes beyond U+FFFF with four digits and one more, and "\u20000" is
// U+2000 and a 0: so U+2001 to U+2A6D (dashes, curly quotes, arrows) are in, and those planes are not.
bool is_chinese(char32_t c) {
  static constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x2001, 0x2A6D}, {0x2E80, 0x2FDF}, {0x2FF0, 0x303F}, {0x3100, 0x312F}, {0x31A0, 0x31BF},
      {0x31C0, 0x31EF}, {0x3200, 0x33FF}, {0x3400, 0x4DB5}, {0x4E00, 0x9FBB}, {0xF900, 0xFA2D},
      {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F}, {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};
  return std::ranges::any_of(kRanges, [c](const auto& range) { return c >= range.first && c <= range.second; });
}

std::string split_asian(std::string_view text, const TercomOptions& options) {
  std::u32string wide = to_utf32(text);
  const auto is_punctuation = [](char32_t c) { return is_asian_punctuation(c) || is_full_width_punctuation(c); };
  if (options.normalized) wide = pad(wide, [&](char32_t c) { return is_cjk(c) || is_punctuation(c); });
  if (options.no_punct) std::erase_if(wide, is_punctuation);
  return to_utf8(wide);
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  decode_entities(text);
  return split_points(pad(" " + text + " ", is_ascii_symbol));
}

std::string tokenize_international(std::string_view line) {
  const auto is_punctuation = [](char32_t c) { return in_class(c, U_GC_P_MASK); };
  const auto is_number = [](char32_t c) { return in_class(c, U_GC_N_MASK); };
  const std::u32string text = split_marks(to_utf32(line), is_punctuation, is_number);
  return to_utf8(pad(text, [](char32_t c) { return in_class(c, U_GC_S_MASK); }));
}

std::string tokenize_chinese(std::string_view line) {
  const auto words = split_at_spaces(line);
  if (words.empty()) return "";
  const std::string_view stripped(words.front().data(), words.back().data() + words.back().size());
  const std::string text = to_utf8(pad(to_utf32(stripped), is_chinese));
  return split_points(pad(text, is_ascii_symbol));
}

std::string tokenize_characters(std::string_view line) {
  std::u32string text;
  for (const char32_t c : to_utf32(line)) {
    text.push_back(c);
    text.push_back(' ');
  }
  return to_utf8(text);
}

std::string tokenize_tercom(std::string_view line, const TercomOptions& options) {
  std::string text = options.case_sensitive ? std::string(line) : lowercase(line);
  if (options.normalized) {
    replace_all(text, "\n-", "");
    replace_all(text, "\n", " ");
    decode_entities(text);
    text = pad(" " + text + " ", is_ascii_symbol);
    replace_all(text, "'s ", " 's ");
    text = split_points(text);
  }
  if (options.no_punct)
    std::erase_if(text, [](char c) { return std::string_view(".,?:;!\"()").find(c) != std::string_view::npos; });
  if (options.asian_support && (options.normalized || options.no_punct)) text = split_asian(text, options);
  return fmt::format("{}", fmt::join(split_at_spaces(text), " "));
}

std::string split_compounds(std::string_view tokenized) {
  const std::u32string text = to_utf32(tokenized);
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result.push_back(text[i]);
    if (i + 2 >= text.size() || text[i + 1] != '-' || is_space(text[i]) || is_space(text[i + 2])) continue;
    result.append(U" ##AT##-##AT## ").push_back(text[i + 2]);
    i += 2;
  }
  return to_utf8(result);
}

}  // namespace nmt::metrics
