#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.h"
#include "text/batch.h"

namespace nmt {

// Which pairs are trained on, in which order, and how many at a time.
struct DataOptions {
  std::vector<std::string> train_sets;  // source, target, source, target ...

  int64_t max_length = 256;  // tokens of a sentence without </s>
  bool max_length_crop = false;
  bool target_trees = false;  // the model's (ModelConfig), no option of its own

  int64_t mini_batch = 0;        // 0: no limit
  int64_t mini_batch_words = 0;  // 0: the two limits below
  int64_t batch_source_words = 25000;
  int64_t batch_target_words = 25000;

  int64_t maxi_batch = 100;
  std::string shuffle = "data";
  std::string tempdir = "";
  int64_t shuffle_memory = 2048;  // MiB

  void declare(Options& options);
  BatchLimits limits() const;  // of one batch, as these options together set them
  // Fingerprint of what cuts an epoch into batches; a position in the data holds for these alone.
  uint64_t batching() const;
};

}  // namespace nmt
