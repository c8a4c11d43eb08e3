#pragma once

#include <string>
#include <vector>

#include "text/batch.h"
#include "text/vocab.h"

namespace nmt {

// A small parallel text, such as a validation set, wholly in memory.
struct ParallelText {
  std::vector<std::string> source, target;  // by pair, in the order of the files
  // Every pair once, but for those that are blank on both sides, of about equal length; Batch::pairs numbers them.
  std::vector<Batch> batches;

  // A pair longer than the limits is a batch alone. Throws UserError as PairReader does, where the files hold no text,
  // and for a sentence of more than `longest` tokens with </s>, or more bytes than Vocab::kMostLineBytes.
  static ParallelText read(const std::vector<std::string>& paths, const Vocab& source, const Vocab& target,
                           const BatchLimits& limits, int64_t longest, int threads, bool target_trees = false);
};

}  // namespace nmt
