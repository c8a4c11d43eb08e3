#include "text/vocab_words.h"

#include <algorithm>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/utf8.h"
#include "text/lowercase.h"
#include "text/split_words.h"

namespace nmt {
namespace {

constexpr std::string_view kHeader = "#nmt-words 1 words={} merges={} join={:d} lowercase={:d} attached={:d}\n";

struct Header {
  int64_t words = 0, merges = 0, join = 0, lowercase = 0, attached = 0;
};

Header parse_header(std::string_view line, const std::string& name) {
  const auto parts = split_words(line);
  require(parts.size() >= 2 && parts[1] == "1", "{}:1: only version 1 of words vocabularies is known", name);
  Header header;
  const std::pair<std::string_view, int64_t*> fields[] = {{"words=", &header.words},
                                                          {"merges=", &header.merges},
                                                          {"join=", &header.join},
                                                          {"lowercase=", &header.lowercase},
                                                          {"attached=", &header.attached}};
  require(parts.size() == 2 + std::size(fields), "{}:1: the header is damaged", name);
  for (size_t i = 0; i < std::size(fields); ++i) {
    const auto& [key, value] = fields[i];
    require(parts[i + 2].starts_with(key), "{}:1: the header is damaged: expected '{}'", name, key);
    *value = parse_number<int64_t>(parts[i + 2].substr(key.size())).value_or(-1);
    require(*value >= 0 && (i < 2 || *value <= 1), "{}:1: the header is damaged: '{}'", name, parts[i + 2]);
  }
  return header;
}

}  // namespace

WordsVocab::WordsVocab(std::string file, const std::string& name) : Vocab(std::move(file)) {
  const std::string_view text = bytes();
  size_t position = 0;
  int64_t number = 0;
  const auto next = [&](std::string_view& line) {
    const size_t end = text.find('\n', position);
    if (end == text.npos) return false;  // every line ends with '\n'
    line = text.substr(position, end - position);
    position = end + 1;
    ++number;
    return true;
  };
  std::string_view line;
  require(next(line), "{}:1: the header is damaged", name);
  const Header header = parse_header(line, name);
  require(header.words >= 2, "{}:1: a vocabulary has at least {} and {}", name, kUnknown, kEnd);
  const auto lines_at_most = static_cast<int64_t>(text.size() / 2);
  const auto check_next = [&](int64_t i, int64_t n, std::string_view what) {
    require(next(line), "{} is cut off or damaged: it ends after {} of {} {}", name, i, n, what);
    require(is_valid_utf8(line), "{}:{}: not valid UTF-8", name, number);
  };
  words_.reserve(static_cast<size_t>(std::min(header.words, lines_at_most)));
  for (int64_t i = 0; i < header.words; ++i) {
    check_next(i, header.words, "words");
    const size_t tab = line.find('\t');
    require(tab == line.npos || parse_number<int64_t>(line.substr(tab + 1)).value_or(-1) >= 0,
            "{}:{}: expected a count after the tab", name, number);
    const std::string_view word = line.substr(0, tab);
    require(split_words(word) == std::vector{word}, "{}:{}: expected one word", name, number);
    require(ids_.try_emplace(std::string(word), i).second, "{}:{}: '{}' is there twice", name, number, word);
    words_.emplace_back(word);
  }
  require(words_[0] == kUnknown && words_[1] == kEnd, "{}:2: the first two words must be {} and {}", name, kUnknown,
          kEnd);
  std::vector<BpeMerges::Merge> merges;
  merges.reserve(static_cast<size_t>(std::min(header.merges, lines_at_most)));
  for (int64_t i = 0; i < header.merges; ++i) {
    check_next(i, header.merges, "merges");
    const auto parts = split_words(line);
    require(parts.size() == 2, "{}:{}: expected a merge `left right`", name, number);
    merges.emplace_back(parts[0], parts[1]);
  }
  require(position == text.size(), "{}:{}: more lines than the header says", name, number + 1);
  require(merges.empty() || header.join == 1, "{}:1: the header is damaged: merges without join", name);
  style_.join = header.join == 1;
  style_.lowercase = header.lowercase == 1;
  style_.merges = BpeMerges(std::move(merges), header.attached == 1);
}

std::string WordsVocab::train(const WordCounts& counts, int size, int64_t min_count, const WordsStyle& style) {
  std::vector<std::pair<std::string, int64_t>> words;
  for (auto& [word, count] : by_count(counts)) {
    if (static_cast<int>(words.size()) + 2 >= size || count < min_count) break;
    if (word != kUnknown && word != kEnd) words.emplace_back(std::move(word), count);
  }
  require(!words.empty(), "no word of the text is there {} times: give a smaller --min-count", min_count);
  const auto& merges = style.merges.merges();
  std::string file = fmt::format(kHeader, words.size() + 2, merges.size(), style.join || !merges.empty(),
                                 style.lowercase, style.merges.attached());
  file += fmt::format("{}\n{}\n", kUnknown, kEnd);
  for (const auto& [word, count] : words) file += fmt::format("{}\t{}\n", word, count);
  for (const auto& [left, right] : merges) file += fmt::format("{} {}\n", left, right);
  return file;
}

std::vector<int32_t> WordsVocab::encode(std::string_view text) const {
  std::string prepared;
  if (style_.lowercase) text = prepared = lowercase(text);
  if (!style_.merges.empty()) text = prepared = unsplit(text);
  if (!is_valid_utf8(text)) text = prepared = repair_utf8(text);
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view piece) {
    const int id = find(piece);
    ids.push_back(id < 0 || id == eos_id() ? unk_id() : id);
  };
  for (const std::string_view word : split_words(text)) {
    if (style_.merges.empty())
      add(word);
    else
      for (const auto& piece : style_.merges.split(word)) add(piece);
  }
  return ids;
}

std::string WordsVocab::decode(std::span<const int32_t> ids) const {
  std::vector<std::string_view> tokens;
  for (const int32_t id : ids) {
    check_id(id);
    if (id != eos_id()) tokens.push_back(words_[id]);
  }
  return style_.join ? join_bpe(tokens) : fmt::format("{}", fmt::join(tokens, " "));
}

std::string WordsVocab::join(std::string_view text) const { return style_.join ? join_bpe(text) : std::string(text); }

std::string WordsVocab::unsplit(std::string_view text) const {
  return style_.merges.empty() ? std::string(text) : join_bpe(text);
}

std::vector<int32_t> WordsVocab::words_of(std::span<const int32_t> ids) const {
  std::vector<int32_t> words;
  int32_t word = -1;
  bool continues = false, only_joiners = false;  // as far as the word goes
  for (const int32_t id : ids) {
    check_id(id);
    if (id != eos_id()) {
      if (!continues) ++word;
      only_joiners = style_.join && (only_joiners || !continues) && join_bpe(words_[id]).empty();
    }
    words.push_back(id == eos_id() ? -1 : word);
    continues = style_.join && words_[id].ends_with(kJoiner);
  }
  if (only_joiners) std::ranges::replace(words, word, -1);  // no word, as nothing follows
  return words;
}

std::string WordsVocab::piece(int id) const {
  check_id(id);
  return words_[id];
}

int WordsVocab::find(std::string_view piece) const {
  const auto it = ids_.find(std::string(piece));
  return it == ids_.end() ? -1 : it->second;
}

std::vector<std::pair<std::string, std::string>> WordsVocab::properties() const {
  return {{"join @@", style_.join ? "yes" : "no"},
          {"lower-case", style_.lowercase ? "yes" : "no"},
          {"merges", fmt::format("{}", style_.merges.merges().size())}};
}

}  // namespace nmt
