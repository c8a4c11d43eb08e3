#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "train/amount.h"

namespace nmt {

// Lines of training's log: text as log readers of Marian know it, and JSON for machines.
class TrainLog {
 public:
  // json_path empty: text only; quiet: no progress bar. Throws UserError where the file cannot be opened; every line
  // throws Error where it cannot be written.
  TrainLog(std::string json_path, bool quiet);
  ~TrainLog();
  TrainLog(const TrainLog&) = delete;
  TrainLog& operator=(const TrainLog&) = delete;

  struct Update {
    double cost;  // training loss a target token since the last line
    double seconds, tokens_per_second;
    double gradient_norm, learning_rate;
    double wait_share;                         // of the time, spent waiting for data
    double padded_share;                       // what padding would have added
    std::map<std::string, double> part_norms;  // by part of the model, where asked for
  };
  void update(const TrainingProgress& progress, const Update& line);
  // stalled: validations since the best one, 0 for a new best.
  void validation(const TrainingProgress& progress, const std::string& metric, double value, int64_t stalled);
  void event(const TrainingProgress& progress, const std::string& kind, const std::string& text);

  // A progress bar on a terminal: how much of the training is done, rate, time left. Nothing into a file. Drawn anew a
  // few times a second at most.
  void bar(double done, double tokens_per_second, double seconds_left);

 private:
  void json(const std::string& line);
  void clear_bar();

  std::string json_path_;
  std::FILE* json_ = nullptr;
  bool terminal_, bar_shown_ = false;
  std::chrono::steady_clock::time_point bar_drawn_{};
};

// 77303338 -> "77,303,338"
std::string with_commas(int64_t number);

}  // namespace nmt
