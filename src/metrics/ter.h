#pragma once

#include "config/options.h"
#include "metrics/metric.h"
#include "metrics/tokenize.h"

namespace nmt {

struct TerOptions : metrics::TercomOptions {
  void declare(Options& options);  // of the subcommand
};

// Translation edit rate (Snover et al. 2006): insertions, deletions, substitutions and shifts of word sequences, over
// the mean length of the references; the figures of sacreBLEU 2. The reference with the fewest edits counts.
class Ter : public Metric {
 public:
  explicit Ter(const TerOptions& options) : options_(options) {}

  size_t statistics_size() const override { return 2; }  // edits, mean length of the references
  void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                           std::span<double> statistics) const override;
  Score score(std::span<const double> statistics) const override;
  std::string settings() const override;

 private:
  TerOptions options_;
};

}  // namespace nmt
