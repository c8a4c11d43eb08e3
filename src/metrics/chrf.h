#pragma once

#include "config/options.h"
#include "metrics/metric.h"

namespace nmt {

struct ChrfOptions {
  int char_order = 6;          // longest character n-gram
  int word_order = 0;          // longest word n-gram; 2 is chrF++
  int beta = 2;                // recall counts beta times as much as precision
  bool lowercase = false;      // case-insensitive
  bool whitespace = false;     // white space is part of the character n-grams
  bool eps_smoothing = false;  // mean of the orders' F scores with 1e-16 for nothing, as chrF++.py and NLTK have it,
                               // instead of the F score of mean precision and recall over the orders that occur

  void declare(Options& options);  // of the subcommand
};

// chrF (Popović 2015) and chrF++ (Popović 2017) with the figures of sacreBLEU 2. Of several references the one with the
// best F score of a sentence counts.
class Chrf : public Metric {
 public:
  explicit Chrf(const ChrfOptions& options);  // throws UserError when both orders are 0

  // For each order, characters first: n-grams of the hypothesis, of the reference, matches.
  size_t statistics_size() const override { return 3 * static_cast<size_t>(orders()); }
  void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                           std::span<double> statistics) const override;
  Score score(std::span<const double> statistics) const override;
  std::string settings() const override;

 private:
  int orders() const { return options_.char_order + options_.word_order; }
  double f_score(std::span<const double> statistics) const;

  ChrfOptions options_;
};

}  // namespace nmt
