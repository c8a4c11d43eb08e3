#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/metric.h"

namespace nmt {

// What EVALB reads from a parameter file. As declared here: COLLINS.prm, by which parsers of the Penn Treebank are
// compared.
struct BracketParameters {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  bool labelled = true;
  int cutoff = 40;      // there are second figures, of the sentences up to this length
  int max_errors = 10;  // EVALB counts to this, goes on for one more error, and stops at the next
  std::vector<std::string> deleted{"TOP", "-NONE-", ",", ":", "``", "''", "."};  // words with their tag; brackets alone
  std::vector<std::string> not_in_length{"-NONE-"};
  std::vector<std::string> quotes{};  // tags of words that may be a quote to one and none to the other
  Pairs equal_labels{{"ADVP", "PRT"}}, equal_words{};

  bool operator==(const BracketParameters&) const = default;

  // Throws UserError, with file and line, for what EVALB does not know. What the file leaves out is as in EVALB without
  // a file: no labels deleted, none equal.
  static BracketParameters read(const std::string& path);
};

// A sentence's brackets in two trees, as EVALB counts them.
struct SentenceBrackets {
  enum Status { kValid = 0, kError = 1, kSkipped = 2 };  // EVALB's numbers

  Status status = kValid;
  int64_t length = 0;                                               // gold words but for not_in_length
  int64_t words = 0;                                                // gold words but for deleted ones
  int64_t gold = 0, test = 0, matched = 0, crossing = 0, tags = 0;  // 0 where not kValid
  std::string error{};                                              // what is wrong, where it is kError
};

// Both are lines of Penn bracketed text, with any number of trees. A sentence is skipped where the test trees have no
// words, and an error where a line is no tree or the words differ. A test word tagged XX, as `nmt-vocab linearise` tags
// them all, is deleted where the gold word at its place is: EVALB alone would take punctuation for words.
SentenceBrackets compare_brackets(std::string_view gold, std::string_view test, const BracketParameters& parameters);

// Sums over sentences, and EVALB's figures of them: percent but for average_crossing; 0 where there is nothing to
// divide by.
struct BracketSums {
  double sentences = 0, errors = 0, skipped = 0, gold = 0, test = 0, matched = 0, complete = 0;
  double crossing = 0, no_crossing = 0, few_crossing = 0, words = 0, tags = 0;

  void add(const SentenceBrackets& sentence);

  double valid() const { return sentences - errors - skipped; }
  double recall() const;
  double precision() const;
  double f1() const;
  double complete_match() const;
  double average_crossing() const;
  double without_crossing() const;
  double with_few_crossings() const;  // two or less
  double tagging_accuracy() const;
};

// Labelled F1 of brackets (Black et al. 1991), the figures of EVALB. A line is a sentence's tree; one reference.
class Brackets : public Metric {
 public:
  explicit Brackets(BracketParameters parameters) : parameters_(std::move(parameters)) {}

  size_t statistics_size() const override;
  void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                           std::span<double> statistics) const override;
  Score score(std::span<const double> statistics) const override;
  std::string settings() const override;

 private:
  BracketParameters parameters_;
};

// EVALB's output: a line for each sentence, then the sums and the figures of all and of those up to the cutoff length.
std::string evalb_report(std::span<const SentenceBrackets> sentences, int cutoff);

}  // namespace nmt
