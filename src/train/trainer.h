#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/prefetch.h"
#include "io/training_files.h"
#include "train/checkpoint_state.h"
#include "train/train_log.h"
#include "train/training_setup.h"

namespace nmt {

// The training loop: batches, updates, validation, checkpoints. Whatever happens to the process, the next run goes on
// from PREFIX.state and gives the bits of a run that was never stopped, files and costs in the log included (which
// numbered models there are depends on the clock where --save-freq is a time). Files, PREFIX being the model's path
// without .safetensors:
//   PREFIX.safetensors              the model after the last save
//   PREFIX.iterN.safetensors        the model at update N (PREFIX.epochN, after epoch N, where saves are by epoch)
//   PREFIX.best-METRIC.safetensors  the best model by a metric of validation; a save follows, so that it is known
//   PREFIX.state                    everything to go on from: written last, so what it says is there
//   PREFIX.lock                     as long as a training runs
class Trainer {
 public:
  // `dump`: the options as a configuration file, stored in checkpoints; `given`: those that are given, which a
  // training's log begins with. Throws UserError where another one trains this model, before anything is written.
  Trainer(const TrainOptions& options, std::string dump, const std::string& given = "");

  // Trains to the end. Throws Exit with 128 + N where signal N has stopped it (saved), Error where training broke down,
  // UserError, before it reads the data, where the model cannot be written.
  void run();

 private:
  struct Step {
    int64_t tokens = 0, sentences = 0;
    double wait = 0;  // seconds, for the batches
    Position next;
    bool epoch_ended = false;
    TrainingProgress made;  // with it
  };

  void train();
  void begin();  // with a new model
  void refuse_earlier_models() const;
  void start_or_resume();
  void prepare();  // devices and batches, to go on from the model and the state
  void resume(const std::string& checkpoint);
  void forget_other_validations(const std::string& checkpoint);
  std::vector<Batch> next_batches(Step& step);
  void accumulate(const std::vector<Batch>& batches, const Step& step);
  void count(const Step& step);
  void count_seconds(double seconds);
  Update take_outcomes(size_t left = 0);  // waits for updates till only so many are under way; the last one's outcome
  void display(const Update& update, std::map<std::string, double> part_norms);
  void report_epoch();
  // Validates unless a signal comes meanwhile: then it stays due.
  bool validate();  // whether a best model is written
  void save_if_due(bool saves, bool found_best, bool ends, bool stops);
  [[noreturn]] void stop();  // by a signal
  // After an update: validation, saving, the end; whether the training ends.
  bool do_what_is_due(bool saves, bool ends);
  void write_state();
  void save(bool numbered);
  void remove_old() const;                // numbered models
  std::string last_checkpoint() const;    // that can be gone on from, in words
  const std::string& kind_saved() const;  // of numbered models
  bool saves_by_epoch() const { return save_every_.unit == Amount::Unit::kEpochs; }
  bool reached_end() const;
  bool stalled() const;
  double done_share() const;               // in [0, 1]; negative: the training has no end
  std::span<const float> served_values();  // smoothed parameters where there are such
  std::map<std::string, double> part_norms();

  TrainingFiles files_;
  std::string dump_;
  std::vector<Amount> ends_;
  Amount valid_every_, save_every_, display_every_;
  std::deque<Step> begun_;          // updates whose outcome is not known yet
  std::unique_ptr<FileLock> lock_;  // before anything is written
  TrainLog log_;
  TrainingSetup setup_;
  const TrainOptions& options_ = setup_.options;
  Model& model_ = *setup_.model;
  Moments& moments_ = *setup_.moments;
  Replicas& replicas_ = *setup_.replicas;
  int64_t workspace_ = 0;  // bytes that were reserved on the first device
  std::unique_ptr<Prefetch<TrainingBatch>> batches_;
  TrainingState state_;
  bool sound_ = true;      // the last outcome's loss and norm were numbers
  int64_t saved_at_ = -1;  // the update that PREFIX.state is of; -1: there is none of this training
};

}  // namespace nmt
