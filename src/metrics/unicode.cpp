#include "metrics/unicode.h"

namespace nmt::metrics {
namespace {

unsigned byte(std::string_view text, size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; }

// Bytes of the white space character at text[i]; 0 where there is none.
size_t space_bytes(std::string_view text, size_t i) {
  const unsigned a = byte(text, i);
  if (a < 0x80) return is_space(a);
  if (a == 0xC2) return is_space(byte(text, i + 1)) ? 2 : 0;
  if (a < 0xE1 || a > 0xE3) return 0;
  const unsigned b = byte(text, i + 1), c = byte(text, i + 2);
  if ((b & 0xC0) != 0x80 || (c & 0xC0) != 0x80) return 0;
  return is_space((a & 0xF) << 12 | (b & 0x3F) << 6 | (c & 0x3F)) ? 3 : 0;
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::string_view> split_at_spaces(std::string_view text) {
  std::vector<std::string_view> words;
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t space = space_bytes(text, i);
    if (space == 0) {
      ++i;
      continue;
    }
    if (i > start) words.push_back(text.substr(start, i - start));
    start = i += space;
  }
  if (text.size() > start) words.push_back(text.substr(start));
  return words;
}

std::string_view strip_right(std::string_view text) {
  for (size_t bytes = 1; bytes <= 3 && bytes <= text.size();) {
    if (space_bytes(text, text.size() - bytes) == bytes) {
      text.remove_suffix(bytes);
      bytes = 1;
    } else {
      ++bytes;
    }
  }
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string replaced;
  size_t begin = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
    replaced.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  if (begin > 0) text = replaced.append(text, begin);
}

}  // namespace nmt::metrics
