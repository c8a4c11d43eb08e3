#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sentence.h"
#include "values.h"

namespace nmt::numbers {

// `count` different pairs whose values all belong to the part. Carriers take turns in a random order.
// Throws UserError where the carriers do not give that many.
std::vector<Pair> generate(Part part, int64_t count, uint64_t seed);

struct Sizes {
  int64_t train = 30000, dev = 1000, test = 1000;
};

// Writes train.en, train.de, dev.en ... into the folder, making it where it is missing.
void write_corpus(const std::string& folder, const Sizes& sizes, uint64_t seed);

// What a folder of six files holds.
struct Report {
  struct PartReport {
    int64_t pairs = 0, values = 0;  // different values
    int64_t unseen_words = 0;       // English words (numerals apart) of the part that training never shows
    int64_t known_values = 0;       // values that training or the other held-out part has too
    int64_t english_words = 0, german_words = 0;
  };
  PartReport train, dev, test;
  int64_t duplicates = 0;  // pairs that occur more than once, in whatever parts
  int64_t ambiguous = 0;   // English sentences with more than one translation
  int64_t without_value = 0;
  int64_t outside = 0;  // sentences of fewer than 6 or more than 25 English words

  bool sound() const;
  std::string text() const;  // one line each
};

// Throws UserError for files that are missing or of different lengths.
Report examine(const std::string& folder);

// Writes baseline.copy.de (the English itself) and baseline.nearest.de (the German side of the training pair whose
// English shares the most character 4-grams by Dice's coefficient; the first of several) for test.en.
void write_baselines(const std::string& folder);

}  // namespace nmt::numbers
