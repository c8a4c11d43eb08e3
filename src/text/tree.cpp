#include "text/tree.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/split_words.h"

namespace nmt {
namespace {

constexpr std::string_view kBlankOrBracket = " \t\r\n\v\f()";

// The bytes before the first malformed character.
size_t well_formed(std::string_view text) {
  size_t size = 0;
  for (const char32_t character : to_utf32(text)) {
    std::string bytes;
    append_utf8(bytes, character);
    if (!text.substr(size).starts_with(bytes)) break;
    size += bytes.size();
  }
  return size;
}

void append_word(std::string& text, std::string_view word) {
  for (const char c : word)
    if (c == '(')
      text += "-LRB-";
    else if (c == ')')
      text += "-RRB-";
    else
      text += c;
}

void append_tree(std::string& text, const Tree& tree) {
  text.append("(").append(tree.label);
  if (tree.is_leaf()) append_word(text.append(" "), tree.word);
  for (const Tree& child : tree.children) append_tree(text.append(" "), child);
  text.append(")");
}

}  // namespace

size_t column_of(std::string_view line, size_t offset) {
  return 1 + static_cast<size_t>(std::ranges::count_if(line.substr(0, offset), begins_character));
}

std::string Tree::text() const {
  std::string text;
  append_tree(text, *this);
  return text;
}

void TreeParser::parse(std::string_view line, const std::string& where, std::deque<Tree>& trees) {
  size_t at = 0;
  const auto expect = [&]<class... Args>(bool fine, fmt::format_string<const Args&...> message, const Args&... args) {
    if (!fine) user_error("{}{}: {}", where, column_of(line, at), fmt::format(message, args...));
  };
  at = line.find('\0');
  expect(at == line.npos, "NUL byte: this is not UTF-8 text");
  if (!is_valid_utf8(line)) {
    at = well_formed(line);
    expect(false, "malformed UTF-8");
  }

  std::optional<size_t> begin;  // of the tree that is open
  for (at = line.find_first_not_of(kAsciiSpaces); at < line.size(); at = line.find_first_not_of(kAsciiSpaces, at)) {
    if (line[at] == '(') {
      const size_t end = std::min(line.find_first_of(kBlankOrBracket, at + 1), line.size());
      const auto label = line.substr(at + 1, end - at - 1);
      if (open_.empty()) {
        begin = at;
        brackets_ = 0;
      } else {
        expect(!label.empty() || empty_ == EmptyBrackets::kAccept, "this bracket has no label");
        expect(!open_.back().is_leaf(), "a bracket after the word '{}'", open_.back().word);
      }
      expect(open_.size() < kMaxDepth, "more than {} brackets are open", kMaxDepth);
      expect(++brackets_ <= kMaxBrackets, "a tree of more than {} brackets", kMaxBrackets);
      open_.push_back({std::string(label)});
      at = end;
    } else if (line[at] == ')') {
      expect(!open_.empty(), "')' closes nothing");
      expect(open_.back().is_leaf() || !open_.back().children.empty() || empty_ == EmptyBrackets::kAccept,
             "the bracket that ends here is empty");
      Tree tree = std::move(open_.back());
      open_.pop_back();
      if (open_.empty())
        trees.push_back(std::move(tree));
      else
        open_.back().children.push_back(std::move(tree));
      ++at;
    } else {
      const size_t end = std::min(line.find_first_of(kBlankOrBracket, at), line.size());
      const auto word = line.substr(at, end - at);
      expect(!open_.empty(), "the word '{}' stands outside of all brackets", word);
      Tree& leaf = open_.back();
      expect(!leaf.label.empty(), "the word '{}' has no tag", word);
      expect(leaf.children.empty(), "the word '{}' stands beside brackets; it needs one of its own", word);
      expect(!leaf.is_leaf(), "the word '{}' stands beside the word '{}'", word, leaf.word);
      leaf.word = word;
      at = end;
    }
  }
  if (begin && !open_.empty()) begin_ = fmt::format("{}{}", where, column_of(line, *begin));
}

void TreeParser::finish() const { require(open_.empty(), "{}: this bracket is not closed", begin_); }

bool TreeReader::next(Tree& tree) {
  for (std::string line; trees_.empty();) {
    if (!lines_.next(line)) {
      parser_.finish();
      return false;
    }
    if (lines_.line_number() == 1) drop_byte_order_mark(line);
    parser_.parse(line, fmt::format("{}:{}:", lines_.name(), lines_.line_number()), trees_);
  }
  tree = std::move(trees_.front());
  trees_.pop_front();
  return true;
}

}  // namespace nmt
