#pragma once

#include <functional>
#include <string>

namespace nmt {

// Each sums counts of its share of the text in floats: with another number the result is another.
inline constexpr int kSentencePieceThreads = 8;

struct VocabTraining;

// Trains a model with the library, of type "bpe" or "unigram"; ids: <unk> 0, </s> 1, then user-defined symbols and
// pieces. `next` gives the lines, false at the end; what it throws comes through. The result depends on lines and
// settings only, not on the machine's threads; it is empty if there is no text. Throws UserError where the size does
// not fit the text, saying which does.
std::string train_sentencepiece(const VocabTraining& settings, const std::function<bool(std::string&)>& next);

}  // namespace nmt
