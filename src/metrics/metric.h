#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/score.h"

namespace nmt {

// A metric whose corpus score is a function of sums over the sentences, as of all here. The sentences are looked at
// once; every resample of a bootstrap is then only a sum.
class Metric {
 public:
  virtual ~Metric() = default;

  virtual size_t statistics_size() const = 0;  // numbers of one sentence

  // Writes the sufficient statistics of one sentence, statistics_size() numbers. At least one reference.
  virtual void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                                   std::span<double> statistics) const = 0;

  // Name, value and details from a sentence's statistics or from sums of them.
  virtual Score score(std::span<const double> statistics) const = 0;

  virtual std::string settings() const = 0;  // the signature's own part, fields KEY:VALUE: "case:mixed|eff:no|..."
};

// The statistics of each sentence of a corpus, one row each.
class CorpusStatistics {
 public:
  // references[r] holds the r-th reference of every line. Throws UserError where a reference has another number of
  // lines than the hypotheses, or where there is no reference or no line.
  CorpusStatistics(const Metric& metric, std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references);

  size_t size() const { return values_.size() / width_; }  // lines
  std::span<const double> row(size_t line) const { return std::span(values_).subspan(line * width_, width_); }

  Score score() const;                      // of the corpus
  Score sentence_score(size_t line) const;  // line < size()

  // Scores of resamples with replacement (Efron and Tibshirani 1993; Koehn 2004): trial t takes the lines that
  // Random(seed, t) draws, the same lines for each system. sacreBLEU draws with another generator, so its interval
  // differs within the resampling error.
  std::vector<double> bootstrap(int trials, uint64_t seed) const;

  // The signature for scores with these many bootstrap trials; none when trials is 0.
  std::string signature(int trials = 0, uint64_t seed = 0) const;

 private:
  const Metric& metric_;
  size_t references_, width_;
  std::vector<double> values_;
};

// The score of a corpus, a line a sentence; see CorpusStatistics.
Score corpus_score(const Metric& metric, std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references);

// Mean and half of the 95 % interval: the scores between the 1/40 lowest and the 1/40 highest.
Score::Interval confidence_interval(std::vector<double> scores);

// Paired bootstrap test (Koehn 2004, as sacreBLEU and Moses have it): the share of the trials whose difference lies
// further above the mean difference than the two systems' real difference, (count + 1) / (trials + 1); 1 where neither
// the systems nor any trials differ (sacreBLEU's is 1 / (trials + 1) then).
double paired_p_value(std::span<const double> baseline_trials, std::span<const double> trials, double baseline_score,
                      double score);

}  // namespace nmt
