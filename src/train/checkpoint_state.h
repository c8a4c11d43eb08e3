#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/model.h"
#include "text/batch_stream.h"
#include "train/amount.h"
#include "train/optimizer.h"

namespace nmt {

// Sums since the last line of the log.
struct LogSums {
  double loss = 0, seconds = 0, wait = 0;  // wait: for data, of the seconds
  int64_t tokens = 0;
  BatchCounts counts;
};

// What a run needs to go on as if it had never stopped, beside parameters and optimizer.
struct TrainingState {
  TrainingProgress progress;
  Position position;
  uint64_t corpus = 0;    // fingerprint of the training data
  uint64_t batching = 0;  // and of the options that cut it into batches
  uint64_t seed = 0;
  double mean_norm = 0;  // running mean of the gradient's norm
  int64_t skipped = 0, skipped_in_row = 0;
  std::map<std::string, double> best;      // by metric
  std::map<std::string, int64_t> stalled;  // validations since the best one, by metric
  std::vector<std::string> history;        // JSON, one object a validation and metric
  LogSums shown;
  BatchCounts epoch;  // so far
};

// One file: parameters, optimizer, state. Written whole or not at all.
void write_checkpoint(const std::string& path, const Model& model, Optimizer& optimizer, const TrainingState& state,
                      const std::string& options);
// Throws UserError where the file is of another model.
TrainingState read_checkpoint(const std::string& path, Model& model, Optimizer& optimizer);

}  // namespace nmt
