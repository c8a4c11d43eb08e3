#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.h"
#include "text/vocab.h"
#include "text/vocab_counts.h"

namespace nmt {

// Which vocabulary to train, on which text.
struct VocabTraining {
  std::string type = "bpe";
  int size = 37000;
  std::vector<std::string> train_sets;
  int64_t max_train_lines = 0;
  uint64_t seed = 1;
  bool lowercase = false;
  double character_coverage = 0.9995;
  std::string normalization = "nmt_nfkc";
  bool byte_fallback = false;
  std::vector<std::string> user_defined_symbols;
  int64_t min_count = 1;
  bool join_bpe = false;
  std::string merges;

  void declare(Options& options);

  // Throws UserError for an option that the type does not take (it is refused, not ignored) and for wrong values.
  void validate() const;
};

// How a vocabulary fits a text, each word as often as it occurs. Words are what split_words gives, punctuation
// included.
struct VocabFit {
  int64_t words = 0, known = 0;  // known: without an unknown piece
  int64_t pieces = 0, unknown = 0;

  std::string text() const;  // "coverage 99.980% of 123456 words, 1.1200 pieces a word, 0.010% of them unknown"
};

// Encodes each word by itself; the same for any number of threads.
VocabFit measure_fit(const Vocab& vocab, const WordCounts& words, int threads);

// Adds the words of a text to the counts.
void count_words(std::string_view text, WordCounts& counts);

struct TrainedVocab {
  std::shared_ptr<const Vocab> vocab;
  WordCounts words;  // of the text it was trained on
  int64_t lines = 0;
};

// Reads the text once (plain, gzip, zstd or standard input), trains, and loads the result. Deterministic: depends on
// the text and the settings only. The text is cleaned as LineCleaner does, NUL bytes become U+FFFD.
// Throws UserError for options that do not go together, an empty text or a size that does not fit it.
TrainedVocab train_vocab(const VocabTraining& settings);

}  // namespace nmt
