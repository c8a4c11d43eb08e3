#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/line_reader.h"

namespace nmt {

// A constituency tree. A leaf has a word, and its part-of-speech tag as label; a constituent has children.
struct Tree {
  std::string label;
  std::string word{};
  std::vector<Tree> children{};

  bool is_leaf() const { return !word.empty(); }
  bool operator==(const Tree&) const = default;

  // Penn bracketed text in one line: "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))". Brackets in words are written as
  // Penn's -LRB- and -RRB-.
  std::string text() const;
};

// Brackets that hold neither word nor constituent, and inner ones without a label: refused, or read as constituents
// that lack children or label; `(())` is what parsers write where they find no parse.
enum class EmptyBrackets { kRefuse, kAccept };

// Reads Penn bracketed text. The outermost bracket may lack a label, `( (S ...) )`; its label is empty then. Labels and
// words are kept as they are: -LRB-, -NONE-, NP-SBJ-1.
class TreeParser {
 public:
  static constexpr size_t kMaxDepth = 500, kMaxBrackets = 100'000;  // of a tree

  explicit TreeParser(EmptyBrackets empty = EmptyBrackets::kRefuse) : empty_(empty) {}

  // Takes the text's next line; appends the trees that end in it. Throws UserError, "{where}{column}: what is wrong",
  // for NUL, malformed UTF-8, unmatched or empty brackets, missing labels, words that are out of place, and a tree
  // that is too deep or has too many brackets.
  void parse(std::string_view line, const std::string& where, std::deque<Tree>& trees);

  void finish() const;  // after the last line; throws UserError where a bracket is still open

 private:
  EmptyBrackets empty_;
  std::vector<Tree> open_;  // outermost first
  std::string begin_;       // where the outermost is
  size_t brackets_ = 0;     // in the tree so far
};

// The trees of a file (as LineReader reads it): each on a line, over several, or several on one.
class TreeReader {
 public:
  explicit TreeReader(const std::string& path) : lines_(path) {}

  // The next tree; false at the end. Throws UserError, with file, line and column, where the text is no tree.
  bool next(Tree& tree);

 private:
  LineReader lines_;
  TreeParser parser_;
  std::deque<Tree> trees_;
};

// The column, from 1 and in characters, of a byte of a line.
size_t column_of(std::string_view line, size_t offset);

}  // namespace nmt
