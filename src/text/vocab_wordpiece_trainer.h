#pragma once

#include "text/vocab_counts.h"

namespace nmt {

// Trains a WordPiece inventory of exactly `size` pieces and returns the vocab.txt: the five special pieces of BERT, the
// characters of the text (at the start of words, and with ## inside them), then the pieces made, best first.
//
// Schuster and Nakajima 2012 ("Japanese and Korean Voice Search", section 4): from the characters on, always add the
// combination of two neighbouring units that raises the likelihood of the training text the most. The language model
// is the unigram model of the units: log L = sum_u f(n_u) - f(N), f(n) = n log n, n_u a unit's count, N their sum.
// Joining a and b, n_ab times neighbours, hence raises it by
//   f(n_ab) + f(n_a - n_ab) - f(n_a) + f(n_b - n_ab) - f(n_b) + f(N) - f(N - n_ab),
// for a = b with n_a - 2 n_ab. Equal gains are decided by the units' text, so the result depends on the counts alone.
//
// `words` counts the words of basic_words. Of their characters the most frequent that make up `coverage` of the text
// are kept; words with another one are left out. Throws UserError where `size` is too small for the characters or
// larger than all that can be made.
std::string train_wordpiece(const WordCounts& words, int size, double coverage);

}  // namespace nmt
