#include "metrics/metric.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "base/version.h"

namespace nmt {

CorpusStatistics::CorpusStatistics(const Metric& metric, std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references)
    : metric_(metric), references_(references.size()), width_(metric.statistics_size()) {
  require(!references.empty(), "no reference to score against");
  require(!hypotheses.empty(), "no line to score");
  for (const auto& reference : references)
    require(reference.size() == hypotheses.size(), "{} lines cannot be scored against a reference of {}",
            hypotheses.size(), reference.size());
  values_.resize(hypotheses.size() * width_);
  std::vector<std::string_view> of_line(references.size());
  for (size_t line = 0; line < hypotheses.size(); ++line) {
    for (size_t r = 0; r < references.size(); ++r) of_line[r] = references[r][line];
    metric.sentence_statistics(hypotheses[line], of_line, std::span(values_).subspan(line * width_, width_));
  }
}

Score CorpusStatistics::score() const {
  std::vector<double> sum(width_, 0.0);
  for (size_t i = 0; i < values_.size(); ++i) sum[i % width_] += values_[i];
  Score score = metric_.score(sum);
  score.signature = signature();
  return score;
}

Score CorpusStatistics::sentence_score(size_t line) const {
  Score score = metric_.score(row(line));
  score.signature = signature();
  return score;
}

std::vector<double> CorpusStatistics::bootstrap(int trials, uint64_t seed) const {
  std::vector<double> scores, sum(width_);
  for (int trial = 0; trial < trials; ++trial) {
    Random random(seed, static_cast<uint64_t>(trial));
    std::ranges::fill(sum, 0.0);
    for (size_t i = 0; i < size(); ++i) {
      const double* values = &values_[random.below(size()) * width_];
      for (size_t k = 0; k < width_; ++k) sum[k] += values[k];
    }
    scores.push_back(metric_.score(sum).value);
  }
  return scores;
}

std::string CorpusStatistics::signature(int trials, uint64_t seed) const {
  return fmt::format("nrefs:{}|{}{}|version:nmt-{}", references_,
                     trials > 0 ? fmt::format("bs:{}|seed:{}|", trials, seed) : "", metric_.settings(), kVersion);
}

Score::Interval confidence_interval(std::vector<double> scores) {
  check(!scores.empty(), "an interval needs scores");
  std::ranges::sort(scores);
  const size_t low = scores.size() / 40, high = scores.size() - low - 1;
  return {std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size()),
          0.5 * (scores[high] - scores[low])};
}

double paired_p_value(std::span<const double> baseline_trials, std::span<const double> trials, double baseline_score,
                      double score) {
  check(baseline_trials.size() == trials.size() && !trials.empty(), "a paired test needs equal numbers of trials");
  std::vector<double> differences(trials.size());
  for (size_t t = 0; t < trials.size(); ++t) differences[t] = std::abs(trials[t] - baseline_trials[t]);
  const auto count = static_cast<double>(differences.size());
  const double mean = std::accumulate(differences.begin(), differences.end(), 0.0) / count;
  const double real = std::abs(score - baseline_score);
  if (real == 0 && mean == 0) return 1;
  const auto above = std::ranges::count_if(differences, [&](double d) { return d - mean > real; });
  return (static_cast<double>(above) + 1) / (count + 1);
}

Score corpus_score(const Metric& metric, std::span<const std::string> hypotheses,
                   std::span<const std::vector<std::string>> references) {
  return CorpusStatistics(metric, hypotheses, references).score();
}

}  // namespace nmt
