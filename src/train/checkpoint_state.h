#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "nn/model.h"
#include "text/batch_stream.h"
#include "train/amount.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace nmt {

// Sums over updates.
struct TrainingSums {
  double loss = 0, seconds = 0, wait = 0;  // wait: for data, of the seconds
  int64_t tokens = 0, cost_tokens = 0;     // cost_tokens: of losses that are numbers, which `loss` adds up
  BatchCounts counts;

  bool operator==(const TrainingSums&) const = default;
};

constexpr const char* kBeginAnew =
    "another --model leaves that training as it is; --restart begins anew and removes its models";

// Calls read(), which reads a checkpoint, and adds to its UserError what helps.
template <class Read>
auto advise_on_checkpoint(Read read) try {
  return read();
} catch (const UserError& error) {
  user_error("{} ({})", error.what(), kBeginAnew);
}

// What a run needs to go on as if it had never stopped, beside parameters and optimizer.
struct TrainingState {
  TrainingProgress progress;
  Position position;
  uint64_t corpus = 0;    // fingerprint of the training data
  uint64_t batching = 0;  // and of the options that cut it into batches
  uint64_t seed = 0;
  int depth_scaling = -1;  // whether --transformer-depth-scaling made the first parameters; -1: not known
  double mean_norm = 0;    // running mean of the gradient's norm
  int64_t skipped = 0, skipped_in_row = 0;
  LossScale loss_scale;
  bool validation_due = false, save_due = false;  // before the next update; when an update is sound
  int64_t validated = -1;                         // progress.updates of the last validation
  double looked = 0;                              // progress.seconds when it was last asked what is due
  std::map<std::string, double> best;             // by metric
  std::map<std::string, uint64_t> measured_on;    // by metric: fingerprint of what it is measured on
  std::map<std::string, int64_t> stalled;         // validations since the best one, by metric
  TrainingSums shown;                             // since the last line of the log
  TrainingSums epoch;                             // of the epoch so far

  bool operator==(const TrainingState&) const = default;
};

// One file: parameters, optimizer, state, and the options (a configuration file's text) for the reader to see. Written
// whole or not at all; throws Error where it cannot be.
void write_checkpoint(const std::string& path, const Model& model, const Moments& moments, const TrainingState& state,
                      const std::string& options);
// Fills the model's parameters and the moments. Throws UserError where the file is damaged, by its hash, too, of
// another model or vocabulary, or no checkpoint. Smoothed parameters start as the parameters where the file has none.
TrainingState read_checkpoint(const std::string& path, Model& model, Moments& moments);

}  // namespace nmt
