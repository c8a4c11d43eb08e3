#pragma once

#include <unordered_map>

#include "text/vocab.h"
#include "text/vocab_wordpiece_tokens.h"

namespace nmt {

// WordPiece with BERT's vocab.txt: one piece a line, its number is its id; pieces that continue a word begin with `##`.
// A word of basic_words is split greedily into the longest pieces from its start (Devlin et al. 2019; Wu et al. 2016);
// a word that cannot be split, or of more than 200 characters, is one [UNK]. The end of a sentence is </s> if there is
// such a piece, else [SEP].
// The format does not say whether text is lower-cased: it is if that would change no piece, and then accents are
// removed, too, if no piece has one (so BERT's cased and uncased files are both treated as they were made).
// Text is normalised to join_words(basic_words(text)): the format keeps no spaces, so the text's own ones around
// punctuation are replaced by the usual ones.
class WordPieceVocab : public Vocab {
 public:
  static constexpr std::string_view kUnknown = "[UNK]", kContinues = "##";
  static constexpr std::string_view kSpecial[] = {"[PAD]", kUnknown, "[CLS]", "[SEP]", "[MASK]"};  // of BERT

  static constexpr int kLongestWord = 200;  // characters; a longer word is unknown, as to BERT

  static bool recognises(std::string_view bytes);  // a guess: it has the line [UNK]
  // Throws UserError where a line is no piece, or the unknown or end-of-sentence piece is missing.
  WordPieceVocab(std::string bytes, const std::string& name);

  std::string type() const override { return "wordpiece"; }
  int size() const override { return static_cast<int>(pieces_.size()); }
  int eos_id() const override { return eos_; }
  int unk_id() const override { return unk_; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::vector<int32_t> words_of(std::span<const int32_t> ids) const override;
  std::string piece(int id) const override;
  int find(std::string_view piece) const override;
  std::vector<std::pair<std::string, std::string>> properties() const override;

 private:
  using Ids = std::unordered_map<std::string_view, int32_t>;  // into bytes()

  bool encode_word(const std::string& word, std::vector<int32_t>& ids) const;
  bool is_control(int id) const;

  std::vector<std::string_view> pieces_;
  Ids ids_, starts_, continuations_;  // all pieces; those that begin words; those that continue them, without ##
  size_t longest_ = 0;                // bytes of the longest piece
  int eos_ = -1, unk_ = -1;
  WordPieceCasing casing_;
};

}  // namespace nmt
