#pragma once

#include <cstdio>
#include <map>
#include <string>

#include "base/progress.h"
#include "train/amount.h"

namespace nmt {

// Lines of training's log: text as log readers of Marian know it, and JSON for machines, one object a line with "kind"
// (update, validation, error, or that of an event), "epoch", "update", "sentences" and "tokens" first.
class TrainLog {
 public:
  // json_path empty: text only; quiet: no progress bar. Throws UserError where the file cannot be opened; every line
  // throws Error where it cannot be written.
  TrainLog(std::string json_path, bool quiet);
  ~TrainLog();
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;

  struct Line {
    double cost;                               // training loss a target token since the last line
    double seconds, tokens_per_second;         // since the last line
    double gradient_norm, learning_rate;       // of this update
    double wait_share;                         // of the seconds, spent waiting for data, in [0, 1]
    double padded_share;                       // of a padded layout that would be padding, in [0, 1)
    std::map<std::string, double> part_norms;  // of this update's gradient by part of the model, where asked for
  };
  void update(const TrainingProgress& progress, const Line& line);
  // stalled: validations since the best one, 0 for a new best.
  void validation(const TrainingProgress& progress, const std::string& metric, double value, int64_t stalled);
  // kind: "resume", "remove", "epoch", "save", "loss-scale", "early-stopping", "stop" (by a signal), "finish" or
  // "warning"; a warning is one in the text log, too.
  void event(const TrainingProgress& progress, const std::string& kind, const std::string& text);
  // What breaks the training off, in JSON alone: the program says it itself. Throws nothing: it may be about this log.
  void error(const TrainingProgress& progress, const std::string& text) noexcept;

  // A progress bar on a terminal. done: the share of the training, negative where it has no end.
  void bar(const TrainingProgress& progress, double done);

 private:
  void json(const std::string& line);

  std::string json_path_;
  std::FILE* json_ = nullptr;
  Progress bar_;
};

// 77303338 -> "77,303,338"
std::string with_commas(int64_t number);

}  // namespace nmt
