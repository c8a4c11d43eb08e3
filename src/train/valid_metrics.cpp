#include "train/valid_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "metrics/bleu.h"
#include "metrics/brackets.h"
#include "metrics/chrf.h"
#include "text/linear_tree.h"
#include "text/split_words.h"

namespace nmt {

namespace {

// F1 of normalised trees, as nmt-eval has it of nmt-decode's with XX for all tags: by a parser's own tags EVALB would
// take words for punctuation.
double brackets_f1(const Measured& m) {
  BracketSums sums;
  for (size_t i = 0; i < m.translations.size(); ++i) {
    const auto words = split_words(m.sources[i]);
    const auto tree_text = [&](const std::string& tokens, bool keep_tags) -> std::string {
      auto tree = delinearise(tokens, words);
      if (tree) tree = normalise(*tree, keep_tags);
      return tree ? tree->text() : "";
    };
    sums.add(compare_brackets(tree_text(m.references[i], true), tree_text(m.translations[i], false), {}));
  }
  return sums.f1();
}

double corpus_value(const Metric& metric, const Measured& m) {
  return corpus_score(metric, m.translations, std::span(&m.references, 1)).value;
}

}  // namespace

std::span<const ValidMetric> valid_metrics() {
  static const std::vector<ValidMetric> all = {
      {"cross-entropy", true, false, [](const Measured& m) { return m.cross_entropy; }},
      {"perplexity", true, false, [](const Measured& m) { return std::exp(m.cross_entropy); }},
      {"bleu", false, true, [](const Measured& m) { return corpus_value(Bleu({}), m); }},
      {"bleu-zh", false, true, [](const Measured& m) { return corpus_value(Bleu({.tokenize = "zh"}), m); }},
      {"chrf", false, true, [](const Measured& m) { return corpus_value(Chrf({}), m); }},
      {kBracketsMetric, false, true, brackets_f1},
  };
  return all;
}

std::vector<std::string> valid_metric_names() {
  std::vector<std::string> names;
  for (const ValidMetric& metric : valid_metrics()) names.push_back(metric.name);
  return names;
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
