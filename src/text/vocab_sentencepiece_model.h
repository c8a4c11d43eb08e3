#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nmt {

// What a serialised SentencePiece model (protocol buffer ModelProto of sentencepiece_model.proto) says. The library
// trusts its input: a damaged model can make it read outside its memory. So everything that it relies on is checked
// here first. The views point into the bytes given to parse().
struct SentencePieceModel {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string_view message, text;
    int type = kNormal;
  };

  std::vector<Piece> pieces;
  std::string_view trainer, normalizer, denormalizer;  // serialised specifications
  std::string_view rule;                               // name of the normalisation
  int kind = 1;                                        // unigram, bpe, word, char
  bool byte_fallback = false;

  // Throws UserError, naming the model, where it is cut off or damaged.
  static SentencePieceModel parse(std::string_view bytes, const std::string& name);

  // A model with the same normalisation that knows only the space and the user-defined pieces: decoding what it takes
  // for unknown gives the normalised text (version 0.1.97 of the library has no function of its own for this).
  std::string normalizer_model() const;
};

}  // namespace nmt
