#include "train/valid_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"

namespace nmt {

std::span<const ValidMetric> valid_metrics() {
  static const std::vector<ValidMetric> all = {
      {"cross-entropy", true, false, [](const Measured& m) { return m.cross_entropy; }},
      {"perplexity", true, false, [](const Measured& m) { return std::exp(m.cross_entropy); }},
      {"bleu", false, true,
       [](const Measured& m) { return corpus_bleu(m.translations, std::span(&m.references, 1)).value; }},
      {"chrf", false, true,
       [](const Measured& m) { return corpus_chrf(m.translations, std::span(&m.references, 1)).value; }},
  };
  return all;
}

const ValidMetric& valid_metric(const std::string& name) {
  const auto found = std::ranges::find(valid_metrics(), name, &ValidMetric::name);
  check(found != valid_metrics().end(), "no metric {}", name);
  return *found;
}

bool ValidMetric::is_better(double value, double than) const {
  return std::isfinite(value) && (lower_is_better ? value < than : value > than);
}

}  // namespace nmt
