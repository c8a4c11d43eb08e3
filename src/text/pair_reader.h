#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/text_reader.h"

namespace nmt {

// A sentence pair and where it stands.
struct TextPair {
  std::string source, target;
  int64_t set = 0;   // which pair of files, from 0
  int64_t line = 0;  // in both files, from 1
};

// The sentence pairs of SOURCE TARGET SOURCE TARGET ... files, one pair of files after another. All are opened at once,
// so that a missing one is known before work begins. Throws UserError where a pair's files differ in their number of
// lines or cannot be read, and, of `target_trees`, where a target line is no tree of its source's words
// (linear_tree.h); a line without text is none of either.
class PairReader {
 public:
  explicit PairReader(const std::vector<std::string>& paths, bool target_trees = false);

  bool next(TextPair& pair);                                        // false at the end
  std::string place(int64_t set, int64_t line, bool target) const;  // "FILE:LINE"
  std::string names() const;                                        // "A and B, C and D"

 private:
  std::vector<std::pair<TextReader, TextReader>> sets_;
  bool target_trees_;
  size_t current_ = 0;
};

}  // namespace nmt
