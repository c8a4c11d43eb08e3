#pragma once

#include <string>
#include <string_view>

namespace nmt {

// What a serialised SentencePiece model (protocol buffer ModelProto of sentencepiece_model.proto) says. The library
// trusts its input: a damaged model can make it read outside its memory. So everything that it relies on is checked
// here first.
struct SentencePieceModel {
  std::string_view rule;  // name of the normalisation, a part of the bytes given to parse()
  int kind = 1;           // unigram, bpe, word, char
  bool byte_fallback = false;

  // Throws UserError, naming the model, where it is cut off or damaged.
  static SentencePieceModel parse(std::string_view bytes, const std::string& name);
};

}  // namespace nmt
