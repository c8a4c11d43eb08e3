#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nmt {

// What BERT's basic tokenisation does to letters (Devlin et al. 2019; `uncased` models do both).
struct WordPieceCasing {
  bool lowercase = false;
  bool strip_accents = false;  // canonical decomposition, then nonspacing marks are removed
};

// BERT's basic tokenisation: control characters, U+FFFD and NUL go; text is split at white space; every punctuation
// character (ASCII symbols included) and every CJK ideograph is a word of its own. Malformed UTF-8 is U+FFFD.
std::vector<std::string> basic_words(std::string_view text, const WordPieceCasing& casing);

std::string fold_accents(std::string_view text);  // what strip_accents does

// True if basic_words leaves this character alone (a word by itself) or not at all (control, blank).
bool stands_alone(char32_t character);

// Words of basic_words put together as text is usually written: closing punctuation follows its word without a space,
// opening punctuation precedes it so; quotes alternate; hyphens, slashes and apostrophes bind on both sides, points,
// commas and colons between digits, too; ideographs are not separated. basic_words(join_words(w)) == w.
std::string join_words(std::span<const std::string> words);

}  // namespace nmt
