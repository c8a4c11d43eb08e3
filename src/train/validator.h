#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/line_translator.h"
#include "decode/tree_grammar.h"
#include "graph/runtime.h"
#include "nn/model.h"
#include "text/parallel_text.h"
#include "train/train_options.h"
#include "train/valid_metrics.h"

namespace nmt {

// Measures a model on the validation set: its cross-entropy as nmt-decode --score-targets would, its translations as
// nmt-decode and nmt-eval would, but in the training's precision and batches of --valid-batch-words. The references are
// the target lines with the words whole that the vocabulary's text has in pieces (`@@ `).
class Validator {
 public:
  // Reads the validation set. Throws UserError where it cannot be read or its files differ in their number of lines,
  // or, of a training, where the file of --valid-translation-output cannot be written. trees: of a parser, else null.
  // `options` and `trees` live as long as the validator.
  Validator(const TrainOptions& options, std::shared_ptr<const Vocab> source, std::shared_ptr<const Vocab> target,
            const TreeGrammar* trees);

  // Takes the workspace that cross-entropy needs: whether memory suffices is known now.
  void reserve(Runtime& runtime, Model& model) const;

  // Metric -> value, for the metrics asked for. Translates once where one of them or --valid-translation-output needs
  // it, and writes that file, {U} replaced by `update`; a model that gives no probabilities translates nothing, and
  // these metrics are NaN. Throws Error where it cannot. meanwhile() is called again and again; what it throws ends the
  // validation. Where memory did not suffice to translate so much together, less is from now on, and the runtime's
  // workspace is given back for it.
  std::map<std::string, double> measure(Runtime& runtime, Model& model, int64_t update,
                                        const std::function<void()>& meanwhile);

  // Of the text and, for a metric of translations, the search: values of one fingerprint can be compared.
  uint64_t fingerprint(const std::string& metric) const;

 private:
  double cross_entropy(Runtime& runtime, Model& model, const std::function<void()>& meanwhile) const;
  std::vector<std::string> translate(Runtime& runtime, Model& model, const std::function<void()>& meanwhile);

  const TrainOptions& options_;
  std::shared_ptr<const Vocab> source_, target_;
  const TreeGrammar* trees_;
  LineLimits limits_;  // of what is translated together
  bool lacked_memory_ = false;
  ParallelText text_;  // its target joined
  uint64_t text_hash_ = 0;
};

}  // namespace nmt
