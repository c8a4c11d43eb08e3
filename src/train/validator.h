#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/runtime.h"
#include "nn/model.h"
#include "text/corpus_parallel.h"
#include "train/train_options.h"

namespace nmt {

// Measures a model on the validation set with the scorer and the decoder of nmt-decode; BLEU and chrF come of one
// decoding.
class Validator {
 public:
  Validator(const TrainOptions& options, std::shared_ptr<const Vocab> source, std::shared_ptr<const Vocab> target);

  // Metric -> value, for the metrics asked for: unsmoothed cross-entropy a token, its exponential, BLEU, chrF.
  std::map<std::string, double> measure(Runtime& runtime, Model& model, int64_t update) const;

  // NaN and infinite values are never better.
  static bool is_better(const std::string& metric, double value, double than);

 private:
  double cross_entropy(Runtime& runtime, Model& model) const;
  std::vector<std::string> translate(Runtime& runtime, Model& model) const;

  std::string output_path(int64_t update) const;

  const TrainOptions& options_;
  std::shared_ptr<const Vocab> source_, target_;
  ParallelText text_;
};

}  // namespace nmt
