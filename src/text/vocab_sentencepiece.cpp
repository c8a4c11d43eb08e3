#include "text/vocab_sentencepiece.h"

#include <algorithm>

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/vocab_sentencepiece_model.h"

namespace nmt {
namespace {

namespace sp = sentencepiece;

void check_status(const sp::util::Status& status) {
  if (!status.ok()) fail("SentencePiece: {}", status.error_message());
}

}  // namespace

bool SentencePieceVocab::recognises(std::string_view bytes) {
  return bytes.size() > 4 && bytes[0] == '\x0A' && bytes[2] == '\x0A';  // the first piece, its text
}

SentencePieceVocab::~SentencePieceVocab() = default;

SentencePieceVocab::SentencePieceVocab(std::string file, const std::string& name) : Vocab(std::move(file)) {
  const auto model = SentencePieceModel::parse(bytes(), name);
  auto processor = std::make_unique<sp::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(bytes());
  require(status.ok(), "{} is damaged: {}", name, status.error_message());
  size_ = processor->GetPieceSize();
  eos_ = processor->eos_id();
  unk_ = processor->unk_id();
  require(eos_ >= 0 && eos_ < size_, "{} has no end-of-sentence piece: train it with one (spm_train --eos_id=1)", name);
  require(unk_ >= 0 && unk_ < size_, "{} has no unknown piece", name);
  type_ = std::vector{"unigram", "bpe", "word", "char"}[model.kind - 1];
  properties_ = {{"normalization", std::string(model.rule)}, {"byte fallback", model.byte_fallback ? "yes" : "no"}};
  processor_ = std::move(processor);
}

std::vector<int32_t> SentencePieceVocab::encode(std::string_view text) const {
  std::vector<int> ids;
  check_status(is_valid_utf8(text) ? processor_->Encode(text, &ids) : processor_->Encode(repair_utf8(text), &ids));
  return ids;
}

std::string SentencePieceVocab::decode(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) check_id(id);
  std::string text;
  check_status(processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &text));
  // Byte pieces must neither make two lines of one nor what no text may hold.
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  return text;
}

std::vector<int32_t> SentencePieceVocab::words_of(std::span<const int32_t> ids) const {
  constexpr std::string_view kSpace = "\u2581";
  std::vector<int32_t> words;
  int32_t last = -1;  // the word begun last
  bool between = true;
  for (const int32_t id : ids) {
    check_id(id);
    words.push_back(-1);
    if (processor_->IsControl(id)) continue;
    const std::string& piece = processor_->IdToPiece(id);
    for (std::string_view rest = piece; !rest.empty();) {
      const bool space = rest.starts_with(kSpace);
      rest.remove_prefix(space ? kSpace.size() : 1);
      if (!space && between) ++last;
      if (!space && words.back() < 0) words.back() = last;
      between = space;
    }
    if (words.back() < 0) words.back() = last + 1;  // a space: that before the next word
  }
  std::ranges::replace(words, last + 1, -1);  // there is none
  return words;
}

std::string SentencePieceVocab::piece(int id) const {
  check_id(id);
  return processor_->IdToPiece(id);
}

int SentencePieceVocab::find(std::string_view piece) const {
  const int id = processor_->PieceToId(piece);
  return processor_->IdToPiece(id) == piece ? id : -1;
}

}  // namespace nmt
