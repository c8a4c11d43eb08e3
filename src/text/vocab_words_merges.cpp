#include "text/vocab_words_merges.h"

#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/line_reader.h"
#include "base/utf8.h"
#include "text/split_words.h"

namespace nmt {
namespace {

constexpr std::string_view kEndMark = "</w>";

uint64_t key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Bytes of the UTF-8 character that a lead byte begins; the text is valid.
size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

std::string join_bpe(std::string_view text) { return join_bpe(split_words(text)); }

std::string join_bpe(std::span<const std::string_view> tokens) {
  std::string text, word;
  const auto finish = [&] {
    while (word.ends_with(kJoiner)) word.resize(word.size() - kJoiner.size());
    if (!word.empty()) text.append(text.empty() ? "" : " ").append(word);
    word.clear();
  };
  for (std::string_view token : tokens) {
    const bool open = token.ends_with(kJoiner);
    if (open) token.remove_suffix(kJoiner.size());
    word += token;
    if (!open) finish();
  }
  finish();
  return text;
}

BpeMerges::BpeMerges(std::vector<Merge> merges, bool attached) : merges_(std::move(merges)), attached_(attached) {
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto& [left, right] = merges_[rank];
    const int32_t a = intern(left), b = intern(right);
    rules_.try_emplace(key(a, b), Rule{static_cast<int32_t>(rank), intern(left + right)});  // the first of two stays
  }
}

int32_t BpeMerges::intern(std::string symbol) {
  const auto [it, added] = ids_.try_emplace(symbol, static_cast<int32_t>(texts_.size()));
  if (added) texts_.push_back(std::move(symbol));
  return it->second;
}

BpeMerges BpeMerges::load(const std::string& path) {
  LineReader reader(path);
  std::vector<Merge> merges;
  bool attached = false;  // files without a version line are of version 0.1
  int64_t blank = 0;      // the first of the lines without a merge, which may only end the file
  const auto require_merge = [&](int64_t number, size_t parts) {
    require(parts == 2, "{}:{}: expected a merge `left right` of subword-nmt, found {} parts", path, number, parts);
  };
  for (std::string line; reader.next(line);) {
    const int64_t number = reader.line_number();
    if (number == 1) drop_byte_order_mark(line);
    require(is_valid_utf8(line), "{}:{}: not valid UTF-8", path, number);
    const auto parts = split_words(line);
    if (number == 1 && line.starts_with("#version:")) {
      const auto version = split_words(std::string_view(line).substr(9));
      require(version.size() == 1 && (version[0] == "0.1" || version[0] == "0.2"),
              "{}:1: unknown version of a merges file (0.1 and 0.2 are known)", path);
      attached = version[0] == "0.2";
    } else if (parts.empty()) {
      if (blank == 0) blank = number;
    } else {
      if (blank > 0) require_merge(blank, 0);
      require_merge(number, parts.size());
      merges.emplace_back(parts[0], parts[1]);
    }
  }
  require(!merges.empty(), "{} holds no merges", path);
  return BpeMerges(std::move(merges), attached);
}

// Characters that no merge knows get negative numbers: position -1 - i in `unknown`.
std::vector<int32_t> BpeMerges::symbols_of(std::string_view word, std::vector<std::string>& unknown) const {
  std::vector<int32_t> symbols;
  const auto add = [&](std::string text) {
    const auto it = ids_.find(text);
    if (it == ids_.end()) unknown.push_back(std::move(text));
    symbols.push_back(it == ids_.end() ? -static_cast<int32_t>(unknown.size()) : it->second);
  };
  for (size_t i = 0; i < word.size();) {
    const size_t bytes = character_bytes(word[i]);
    std::string text(word.substr(i, bytes));
    i += bytes;
    if (attached_ && i >= word.size()) text += kEndMark;
    add(std::move(text));
  }
  if (!attached_) add(std::string(kEndMark));
  return symbols;
}

std::vector<std::string> BpeMerges::split(std::string_view word) const {
  std::string repaired;
  if (!is_valid_utf8(word)) word = repaired = repair_utf8(word);
  if (word.empty()) return {};
  std::vector<std::string> unknown;
  std::vector<int32_t> symbols = symbols_of(word, unknown);
  const auto n = static_cast<int32_t>(symbols.size());

  // A linked list of symbols, and the possible merges by rank and place. Merges of one rank are taken together: what
  // they make possible waits, even if its rank is lower.
  std::vector<int32_t> next(symbols.size()), previous(symbols.size());
  std::vector<bool> gone(symbols.size());
  struct Candidate {
    int32_t rank, place, left, right, result;
    bool operator>(const Candidate& other) const { return std::tie(rank, place) > std::tie(other.rank, other.place); }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int32_t place) {
    if (place < 0 || gone[place] || next[place] >= n) return;
    const auto rule = rules_.find(key(symbols[place], symbols[next[place]]));
    if (rule != rules_.end())
      queue.push({rule->second.rank, place, symbols[place], symbols[next[place]], rule->second.result});
  };
  for (int32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (int32_t i = 0; i < n; ++i) consider(i);
  std::vector<int32_t> merged;
  while (!queue.empty()) {
    merged.clear();
    for (const int32_t rank = queue.top().rank; !queue.empty() && queue.top().rank == rank;) {
      const Candidate c = queue.top();
      queue.pop();
      const int32_t right = next[c.place];
      if (gone[c.place] || right >= n || symbols[c.place] != c.left || symbols[right] != c.right) continue;
      symbols[c.place] = c.result;
      gone[right] = true;
      next[c.place] = next[right];
      if (next[right] < n) previous[next[right]] = c.place;
      merged.push_back(c.place);
    }
    for (const int32_t place : merged) {
      consider(previous[place]);
      consider(place);
    }
  }

  std::vector<std::string> pieces;
  for (int32_t i = 0; i < n; i = next[i])
    pieces.push_back(symbols[i] >= 0 ? texts_[symbols[i]] : unknown[-1 - symbols[i]]);
  if (pieces.back() == kEndMark)
    pieces.pop_back();
  else if (pieces.back().ends_with(kEndMark))
    pieces.back().resize(pieces.back().size() - kEndMark.size());
  for (size_t i = 0; i + 1 < pieces.size(); ++i) pieces[i] += kJoiner;
  return pieces;
}

}  // namespace nmt
