#include "base/utf8.h"

#include <fmt/format.h>

namespace nmt {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kMalformed = 0xFFFFFFFF;

// Reads one character at text[i] and moves i behind it; a malformed part is skipped as a whole.
char32_t next(std::string_view text, size_t& i) {
  const auto byte = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned lead = byte(i++);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return kMalformed;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;  // bounds of the second byte
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t c = lead & (0x3F >> more);
  for (int k = 0; k < more; ++k) {
    const unsigned b = byte(i);
    if (b < (k == 0 ? low : 0x80) || b > (k == 0 ? high : 0xBF)) return kMalformed;
    c = c << 6 | (b & 0x3F);
    ++i;
  }
  return c;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();)
    if (next(text, i) == kMalformed) return false;
  return true;
}

std::string_view first_bytes(std::string_view text, size_t longest) {
  constexpr size_t kLongestCharacter = 4;
  if (text.size() <= longest) return text;
  for (size_t end = longest; end > 0 && longest - end < kLongestCharacter; --end)
    if (begins_character(text[end])) return text.substr(0, end);
  return text.substr(0, longest);
}

std::string printable(std::string_view text, size_t longest) {
  std::string result;
  for (const char32_t c : to_utf32(first_bytes(text, longest))) {
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
      result += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    else
      append_utf8(result, c);
  }
  return text.size() > longest ? result + "..." : result;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

void drop_byte_order_mark(std::string& text) { text.erase(0, text.size() - without_byte_order_mark(text).size()); }

std::u32string to_utf32(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next(text, i);
    result.push_back(c == kMalformed ? kReplacement : c);
  }
  return result;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char32_t c : text) append_utf8(result, c);
  return result;
}

std::string repair_utf8(std::string_view text) {
  return is_valid_utf8(text) ? std::string(text) : to_utf8(to_utf32(text));
}

}  // namespace nmt
