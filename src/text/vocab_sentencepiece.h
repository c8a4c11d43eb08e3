#pragma once

#include "text/vocab.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace nmt {

// A SentencePiece model (Kudo and Richardson 2018), its text handled by the library.
// Text is normalised by the model's own rule (nmt_nfkc: Unicode NFKC, white space and control characters of all kinds
// become spaces or go), spaces collapsed and trimmed where the model says so.
class SentencePieceVocab : public Vocab {
 public:
  static bool recognises(std::string_view bytes);  // a guess by the first field
  // Throws UserError for a damaged model, or one without an unknown or end-of-sentence piece.
  SentencePieceVocab(std::string bytes, const std::string& name);
  ~SentencePieceVocab() override;

  std::string type() const override { return type_; }
  int size() const override { return size_; }
  int eos_id() const override { return eos_; }
  int unk_id() const override { return unk_; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::vector<int32_t> words_of(std::span<const int32_t> ids) const override;
  std::string piece(int id) const override;
  int find(std::string_view piece) const override;
  std::vector<std::pair<std::string, std::string>> properties() const override { return properties_; }

 private:
  std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  std::string type_;
  int size_ = 0, eos_ = 0, unk_ = 0;
  std::vector<std::pair<std::string, std::string>> properties_;
};

}  // namespace nmt
