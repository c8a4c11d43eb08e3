#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nmt {

// Well-formed UTF-8 by the Unicode standard (table 3-7): no overlong forms, surrogates or values past U+10FFFF.
bool is_valid_utf8(std::string_view text);

// Whether a byte of UTF-8 is a character's first.
inline bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The start of a text, of so many bytes at most, that cuts no character in two.
std::string_view first_bytes(std::string_view text, size_t longest);

// Each maximal malformed part becomes U+FFFD (Unicode standard, section 3.9); valid text is returned unchanged.
std::string repair_utf8(std::string_view text);

// Text of unknown origin as it may stand in a message: control characters as \xNN, cut after so many bytes.
std::string printable(std::string_view text, size_t longest = 100);

// Takes U+FEFF from the start of a text, where some editors put it.
std::string_view without_byte_order_mark(std::string_view text);
void drop_byte_order_mark(std::string& text);

// Code points from and to UTF-8. Malformed parts become U+FFFD; characters must be Unicode code points.
std::u32string to_utf32(std::string_view text);
std::string to_utf8(std::u32string_view text);
void append_utf8(std::string& text, char32_t character);  // to the end of `text`

}  // namespace nmt
