#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nmt {

constexpr std::string_view kJoiner = "@@";  // ends every piece that continues in the next one

// Undoes `@@ ` splitting: a token that ends with `@@` loses it and is joined to the next one; what is left of `@@` at
// the end of a word goes, too. Words come out separated by one space.
std::string join_bpe(std::string_view text);
std::string join_bpe(std::span<const std::string_view> tokens);

// Byte-pair encoding by a list of merges, as subword-nmt learns and applies it (Sennrich, Haddow and Birch 2016,
// "Neural Machine Translation of Rare Words with Subword Units", algorithm 1): of all neighbouring symbols of a word
// the pair that was learned first is merged everywhere, from left to right, until no learned pair is left.
class BpeMerges {
 public:
  using Merge = std::pair<std::string, std::string>;

  // `attached`: the end mark </w> is part of a word's last symbol (files of version 0.2), else a symbol of its own.
  BpeMerges() = default;
  BpeMerges(std::vector<Merge> merges, bool attached);

  // Reads a subword-nmt file: `#version: 0.2`, then one merge `left right` a line, the first learned first.
  // Throws UserError with file and line number.
  static BpeMerges load(const std::string& path);

  bool empty() const { return merges_.empty(); }
  bool attached() const { return attached_; }
  const std::vector<Merge>& merges() const { return merges_; }

  // The pieces of a word; all but the last carry `@@`. Malformed UTF-8 becomes U+FFFD; an empty word has none.
  std::vector<std::string> split(std::string_view word) const;

 private:
  struct Rule {
    int32_t rank, result;
  };
  int32_t intern(std::string symbol);
  std::vector<int32_t> symbols_of(std::string_view word, std::vector<std::string>& unknown) const;

  std::vector<Merge> merges_;
  bool attached_ = true;
  std::vector<std::string> texts_;                // of the symbols
  std::unordered_map<std::string, int32_t> ids_;  // text to symbol
  std::unordered_map<uint64_t, Rule> rules_;      // (left, right) to rule
};

}  // namespace nmt
