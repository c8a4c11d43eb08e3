#pragma once

#include <unordered_map>

#include "text/vocab.h"
#include "text/vocab_counts.h"
#include "text/vocab_words_merges.h"

namespace nmt {

// How a words vocabulary treats text; stored in its file.
struct WordsStyle {
  bool join = false;       // decoding joins `@@ `
  bool lowercase = false;  // by Unicode's full mapping, independent of language
  BpeMerges merges;        // not empty: encoding splits words by these; implies join
};

// Words as they are separated by ASCII white space, or their pieces by a subword-nmt merges file.
// Its file: a line `#nmt-words 1 words=N merges=M join=0|1 lowercase=0|1 attached=0|1`, N lines `word` or
// `word<TAB>count` in order of their ids (the first two are <unk> and </s>), M lines `left right`.
// Text is normalised: lower-cased where the style says so, `@@ ` joined where it says so, one space between words.
class WordsVocab : public Vocab {
 public:
  static constexpr std::string_view kMagic = "#nmt-words";
  static constexpr std::string_view kUnknown = "<unk>", kEnd = "</s>";

  static bool recognises(std::string_view bytes) { return bytes.starts_with(kMagic); }
  WordsVocab(std::string bytes, const std::string& name);  // throws UserError, with file and line, for a damaged file

  // The file of a text's vocabulary: its most frequent words (equal counts by their bytes), at most size - 2 of them,
  // each at least min_count times there; UserError where there is none.
  static std::string train(const WordCounts& counts, int size, int64_t min_count, const WordsStyle& style);

  std::string type() const override { return "words"; }
  int size() const override { return static_cast<int>(words_.size()); }
  int eos_id() const override { return 1; }
  int unk_id() const override { return 0; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string join(std::string_view text) const override;
  std::string unsplit(std::string_view text) const override;
  std::vector<int32_t> words_of(std::span<const int32_t> ids) const override;
  std::string piece(int id) const override;
  int find(std::string_view piece) const override;
  std::vector<std::pair<std::string, std::string>> properties() const override;

 private:
  WordsStyle style_;
  std::vector<std::string> words_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace nmt
