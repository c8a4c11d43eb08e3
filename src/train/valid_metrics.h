#pragma once

#include <span>
#include <string>
#include <vector>

namespace nmt {

// What validation knows of a model; only what its metrics need is filled in.
struct Measured {
  double cross_entropy = 0;               // unsmoothed, a target token, </s> included
  std::vector<std::string> translations;  // of the validation set's lines; a parser's as tokens (linear_tree.h)
  std::vector<std::string> references;
  std::vector<std::string> sources;
};

// A metric of validation.
struct ValidMetric {
  std::string name;
  bool lower_is_better;
  bool translates;  // needs the translations and references, else the cross-entropy
  double (*value)(const Measured&);

  // NaN and infinite values are never better.
  bool is_better(double value, double than) const;
};

constexpr const char* kBracketsMetric = "brackets";  // a parser's

// All of them, each in one place: options and validation know metrics from here.
std::span<const ValidMetric> valid_metrics();
std::vector<std::string> valid_metric_names();
// `name` is one of them.
const ValidMetric& valid_metric(const std::string& name);

}  // namespace nmt
