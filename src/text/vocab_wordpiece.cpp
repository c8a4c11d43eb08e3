#include "text/vocab_wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/lowercase.h"

namespace nmt {
namespace {

bool continues_word(std::string_view piece) {
  return piece.starts_with(WordPieceVocab::kContinues) && piece.size() > WordPieceVocab::kContinues.size();
}

}  // namespace

bool WordPieceVocab::recognises(std::string_view bytes) {
  bytes = without_byte_order_mark(bytes);
  for (size_t at = bytes.find(kUnknown); at != bytes.npos; at = bytes.find(kUnknown, at + 1)) {
    const auto rest = bytes.substr(at + kUnknown.size());
    if ((at == 0 || bytes[at - 1] == '\n') && (rest.empty() || rest[0] == '\n' || rest[0] == '\r')) return true;
  }
  return false;
}

WordPieceVocab::WordPieceVocab(std::string file, const std::string& name) : Vocab(std::move(file)) {
  const std::string_view text = without_byte_order_mark(bytes());
  bool upper_case = false, accents = false;
  for (size_t position = 0; position < text.size();) {
    const size_t end = std::min(text.find('\n', position), text.size());
    std::string_view piece = text.substr(position, end - position);
    position = end + 1;
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    const auto id = static_cast<int32_t>(pieces_.size());
    require(!piece.empty(), "{}:{}: an empty line, where every line is a piece", name, id + 1);
    require(is_valid_utf8(piece), "{}:{}: not valid UTF-8", name, id + 1);
    require(piece.find('\0') == piece.npos, "{}:{}: a piece with a NUL byte", name, id + 1);
    const auto [known, added] = ids_.try_emplace(piece, id);
    require(added, "{}:{}: '{}' is there twice, first in line {}", name, id + 1, piece, known->second + 1);
    pieces_.push_back(piece);
    const bool bracketed = piece.size() > 2 && piece.starts_with('[') && piece.ends_with(']');
    if (bracketed || is_control(id)) continue;
    const bool continues = continues_word(piece);
    if (continues) piece.remove_prefix(kContinues.size());
    (continues ? continuations_ : starts_).emplace(piece, id);
    longest_ = std::max(longest_, piece.size());
    upper_case = upper_case || lowercase(piece) != piece;
    accents = accents || fold_accents(piece) != piece;
  }
  unk_ = find(kUnknown);
  eos_ = find("</s>") >= 0 ? find("</s>") : find("[SEP]");
  require(unk_ >= 0, "{} has no unknown piece: add a line {}", name, kUnknown);
  require(eos_ >= 0, "{} has no end-of-sentence piece: add a line [SEP] or </s>", name);
  casing_ = {.lowercase = !upper_case, .strip_accents = !upper_case && !accents};
}

bool WordPieceVocab::is_control(int id) const {
  const auto piece = pieces_[id];
  return piece == "</s>" || piece == "<s>" || (piece != kUnknown && std::ranges::count(kSpecial, piece) > 0);
}

bool WordPieceVocab::encode_word(const std::string& word, std::vector<int32_t>& ids) const {
  if (std::ranges::count_if(word, begins_character) > kLongestWord) return false;
  const std::string_view text = word;
  for (size_t begin = 0; begin < text.size();) {
    const Ids& known = begin == 0 ? starts_ : continuations_;
    size_t end = std::min(text.size(), begin + longest_);
    auto found = known.end();
    for (; end > begin; --end) {
      if (end < text.size() && !begins_character(text[end])) continue;
      found = known.find(text.substr(begin, end - begin));
      if (found != known.end()) break;
    }
    if (found == known.end()) return false;
    ids.push_back(found->second);
    begin = end;
  }
  return true;
}

std::vector<int32_t> WordPieceVocab::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  for (const auto& word : basic_words(text, casing_)) {
    const size_t before = ids.size();
    if (encode_word(word, ids)) continue;
    ids.resize(before);
    ids.push_back(unk_);
  }
  return ids;
}

std::vector<int32_t> WordPieceVocab::words_of(std::span<const int32_t> ids) const {
  std::vector<int32_t> words;
  int32_t word = -1;
  for (const int32_t id : ids) {
    check_id(id);
    if (!is_control(id) && (word < 0 || !continues_word(pieces_[id]))) ++word;
    words.push_back(is_control(id) ? -1 : word);
  }
  return words;
}

std::string WordPieceVocab::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> words;
  for (const int32_t id : ids) {
    check_id(id);
    if (is_control(id)) continue;
    const std::string_view piece = pieces_[id];
    if (continues_word(piece) && !words.empty())
      words.back() += piece.substr(kContinues.size());
    else
      words.emplace_back(piece);
  }
  return join_words(words);
}

std::string WordPieceVocab::piece(int id) const {
  check_id(id);
  return std::string(pieces_[id]);
}

int WordPieceVocab::find(std::string_view piece) const {
  const auto it = ids_.find(piece);
  return it == ids_.end() ? -1 : it->second;
}

std::vector<std::pair<std::string, std::string>> WordPieceVocab::properties() const {
  return {{"lower-case", casing_.lowercase ? "yes" : "no"}, {"strip accents", casing_.strip_accents ? "yes" : "no"}};
}

}  // namespace nmt
