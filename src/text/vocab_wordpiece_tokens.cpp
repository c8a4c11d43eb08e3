#include "text/vocab_wordpiece_tokens.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "base/error.h"
#include "base/utf8.h"

namespace nmt {
namespace {

// BERT's white space: some control characters, and all separators, those of lines and paragraphs too.
bool is_blank(char32_t c) {
  return c == '\t' || c == '\n' || c == '\r' || (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_Z_MASK) != 0;
}

bool is_dropped(char32_t c) {
  const auto type = u_charType(static_cast<UChar32>(c));
  return c == 0xFFFD || ((type == U_CONTROL_CHAR || type == U_FORMAT_CHAR) && !is_blank(c));
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && !u_isalnum(static_cast<UChar32>(c));
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0;
}

bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                                       {0x20000, 0x2A6DF}, {0x2A700, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kBlocks)
    if (c >= first && c <= last) return true;
  return false;
}

std::u32string fold(const std::u32string& text, const WordPieceCasing& casing) {
  auto unicode =
      icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()), static_cast<int32_t>(text.size()));
  if (casing.lowercase) unicode.toLower(icu::Locale::getRoot());
  if (casing.strip_accents) {
    UErrorCode failed = U_ZERO_ERROR;
    unicode = icu::Normalizer2::getNFDInstance(failed)->normalize(unicode, failed);
    check(U_SUCCESS(failed), "ICU: {}", u_errorName(failed));
  }
  std::u32string result;
  for (int32_t i = 0; i < unicode.length(); i = unicode.moveIndex32(i, 1)) {
    const auto c = unicode.char32At(i);
    if (!casing.strip_accents || u_charType(c) != U_NON_SPACING_MARK) result.push_back(static_cast<char32_t>(c));
  }
  return result;
}

// How a word of one punctuation character takes its neighbours.
enum class Side { kNone, kLeft, kRight, kBoth };

constexpr std::u32string_view kQuotes = U"\"“”«»";

bool closes(char32_t open, char32_t c) {
  switch (open) {
    case U'"':
      return c == U'"';
    case U'“':
      return c == U'”';
    case U'„':
      return c == U'“' || c == U'”';
    case U'«':
      return c == U'»';
    case U'»':
      return c == U'«';
    default:
      return false;
  }
}

Side side_of(char32_t c) {
  switch (c) {
    case U'-':
    case U'‐':
    case U'‑':
    case U'\'':
    case U'’':
    case U'/':
    case U'\\':
    case U'_':
    case U'@':
      return Side::kBoth;
    case U'$':
    case U'#':
    case U'¿':
    case U'¡':
      return Side::kRight;
    case U'%':
    case U'‰':
      return Side::kLeft;
    case U'–':
    case U'—':
    case U'+':
    case U'*':
    case U'&':
    case U'<':
    case U'>':
    case U'=':
    case U'|':
    case U'~':
    case U'^':
    case U'`':
      return Side::kNone;
    default:
      break;
  }
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_START_PUNCTUATION:
    case U_INITIAL_PUNCTUATION:
      return Side::kRight;
    case U_END_PUNCTUATION:
    case U_FINAL_PUNCTUATION:
    case U_OTHER_PUNCTUATION:
      return Side::kLeft;
    default:
      return Side::kNone;
  }
}

}  // namespace

std::string fold_accents(std::string_view text) {
  return to_utf8(fold(to_utf32(text), {.lowercase = false, .strip_accents = true}));
}

bool stands_alone(char32_t c) { return is_punctuation(c) || is_ideograph(c) || is_blank(c) || is_dropped(c); }

std::vector<std::string> basic_words(std::string_view text, const WordPieceCasing& casing) {
  std::u32string characters = to_utf32(text);
  if (casing.lowercase || casing.strip_accents) characters = fold(characters, casing);
  std::vector<std::string> words;
  bool open = false;  // the last word goes on
  for (const char32_t c : characters) {
    if (is_blank(c)) {
      open = false;
    } else if (!is_dropped(c)) {
      const bool alone = is_punctuation(c) || is_ideograph(c);
      if (!open || alone) words.emplace_back();
      append_utf8(words.back(), c);
      open = !alone;
    }
  }
  return words;
}

std::string join_words(std::span<const std::string> words) {
  std::string text;
  char32_t quote = 0;  // the one that is open
  char32_t last = 0;   // last character of the previous word
  Side previous = Side::kNone;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::u32string word = to_utf32(words[i]);
    if (word.empty()) continue;
    const char32_t c = word[0];
    Side side = Side::kNone;
    if (word.size() == 1 && is_punctuation(c)) {
      side = side_of(c);
      const bool numeric = i + 1 < words.size() && u_isdigit(static_cast<UChar32>(last)) &&
                           u_isdigit(static_cast<UChar32>(to_utf32(words[i + 1]).front()));
      if (closes(quote, c)) {
        side = Side::kLeft;
        quote = 0;
      } else if (kQuotes.find(c) != kQuotes.npos || c == U'„') {
        side = c == U'”' ? Side::kLeft : Side::kRight;
        if (side == Side::kRight) quote = c;
      } else if (numeric && (c == '.' || c == ',' || c == ':')) {
        side = Side::kBoth;
      }
    }
    const bool binds = side == Side::kLeft || side == Side::kBoth || previous == Side::kRight ||
                       previous == Side::kBoth || (is_ideograph(c) && is_ideograph(last));
    if (!text.empty() && !binds) text.push_back(' ');
    text += words[i];
    previous = side;
    last = word.back();
  }
  return text;
}

}  // namespace nmt
