#include "text/linear_tree.h"

#include <algorithm>

#include "base/error.h"
#include "text/split_words.h"

namespace nmt {
namespace {

constexpr std::string_view kEmptyElement = "-NONE-";

bool has_bracket(std::string_view text) { return text.find_first_of("()") != text.npos; }

std::optional<Tree> without_empty(const Tree& tree, bool keep_tags) {
  if (tree.is_leaf()) {
    if (tree.label == kEmptyElement) return std::nullopt;
    return Tree{std::string(keep_tags ? plain_label(tree.label) : kAnyTag), tree.word};
  }
  Tree plain{std::string(plain_label(tree.label))};
  for (const Tree& child : tree.children)
    if (auto kept = without_empty(child, keep_tags)) plain.children.push_back(std::move(*kept));
  if (plain.children.empty()) return std::nullopt;
  return plain;
}

// A sentence's constituents and leaves as one tree: the only constituent, or a TOP around them.
Tree whole(std::vector<Tree> parts) {
  while (parts.size() == 1 && !parts[0].is_leaf()) {
    if (!parts[0].label.empty() && parts[0].label != kTopLabel) return std::move(parts[0]);
    parts = std::vector<Tree>(std::move(parts[0].children));
  }
  return {std::string(kTopLabel), "", std::move(parts)};
}

void append_tokens(std::string& text, const Tree& tree) {
  if (!text.empty()) text += ' ';
  if (tree.is_leaf()) {
    text += tree.label;
    return;
  }
  text.append("(").append(tree.label);
  for (const Tree& child : tree.children) append_tokens(text, child);
  text.append(" )").append(tree.label);
}

void append_words(std::string& text, const Tree& tree) {
  if (tree.is_leaf()) text.append(text.empty() ? "" : " ").append(tree.word);
  for (const Tree& child : tree.children) append_words(text, child);
}

}  // namespace

bool is_bracket(std::string_view token) {
  return token.size() > 1 && (token[0] == '(' || token[0] == ')') && !has_bracket(token.substr(1));
}

std::string_view plain_label(std::string_view label) {
  if (label.starts_with('-')) return label;
  return label.substr(0, label.find_first_of("-=", 1));
}

std::optional<Tree> normalise(const Tree& tree, bool keep_tags) {
  auto plain = without_empty(tree, keep_tags);
  if (!plain) return std::nullopt;
  std::vector<Tree> parts;
  parts.push_back(std::move(*plain));
  return whole(std::move(parts));
}

std::string linearise(const Tree& tree) {
  std::string text;
  if (tree.label != kTopLabel)
    append_tokens(text, tree);
  else
    for (const Tree& child : tree.children) append_tokens(text, child);
  return text;
}

std::string sentence_of(const Tree& tree) {
  std::string text;
  append_words(text, tree);
  return text;
}

std::optional<Tree> delinearise(std::string_view tokens, std::span<const std::string_view> words,
                                const std::function<void(size_t offset, const std::string& what)>& fault) {
  std::vector<Tree> open(1);  // around the whole, then what is open
  size_t used = 0;
  const auto add_leaf = [&](Tree& parent, std::string_view tag) {
    parent.children.push_back({std::string(tag), std::string(words[used++])});
  };
  const auto close = [&] {
    Tree closed = std::move(open.back());
    open.pop_back();
    if (!closed.children.empty()) open.back().children.push_back(std::move(closed));
  };

  for (const std::string_view token : split_words(tokens)) {
    const auto expect = [&]<class... Args>(bool fine, fmt::format_string<const Args&...> message, const Args&... args) {
      if (!fine && fault) fault(static_cast<size_t>(token.data() - tokens.data()), fmt::format(message, args...));
      return fine;
    };
    const std::string_view label = token.substr(1);
    if (token[0] == '(') {
      if (expect(is_bracket(token), "'{}' has no label", token) &&
          expect(open.size() <= kMostOpen, "more than {} brackets are open", kMostOpen))
        open.push_back({std::string(label)});
    } else if (token[0] == ')') {
      if (!expect(open.size() > 1, "'{}' closes nothing", token)) continue;
      expect(open.back().label == label, "'{}' closes '({}'", token, open.back().label);
      expect(!open.back().children.empty(), "'({}' ends without a word", open.back().label);
      const auto same = std::find_if(open.rbegin(), open.rend() - 1, [&](const Tree& t) { return t.label == label; });
      const auto to_close = same == open.rend() - 1 ? 1 : same - open.rbegin() + 1;
      for (auto i = 0; i < to_close; ++i) close();
    } else {
      const bool proper = expect(!has_bracket(token), "'{}' is neither bracket nor tag", token);
      if (expect(used < words.size(), "'{}' is a leaf too many: there are {} words", token, words.size()))
        add_leaf(open.back(), proper ? token : kAnyTag);
    }
  }

  const size_t end = tokens.size();
  if (open.size() > 1 && fault) fault(end, fmt::format("'({}' is not closed", open.back().label));
  if (used < words.size()) {
    if (fault) fault(end, fmt::format("there are {} leaves, but {} words", used, words.size()));
    auto& parts = open[0].children;
    Tree& parent = open.size() == 1 && !parts.empty() && !parts.back().is_leaf() ? parts.back() : open.back();
    while (used < words.size()) add_leaf(parent, kAnyTag);
  }
  while (open.size() > 1) close();
  if (words.empty()) return std::nullopt;
  return whole(std::move(open[0].children));
}

std::string tree_fault(std::string_view tokens, std::string_view sentence) {
  const auto words = split_words(sentence);
  std::string first;
  const auto keep_first = [&](size_t offset, const std::string& what) {
    if (first.empty()) first = fmt::format("{}: {}", column_of(tokens, offset), what);
  };
  if (!words.empty()) delinearise(tokens, words, keep_first);
  return first;
}

}  // namespace nmt
