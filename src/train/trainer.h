#pragma once

#include <memory>
#include <string>

#include "graph/runtime.h"
#include "nn/model.h"
#include "text/batch_stream.h"
#include "text/prefetch.h"
#include "train/checkpoint_state.h"
#include "train/optimizer.h"
#include "train/train_log.h"
#include "train/train_options.h"
#include "train/validator.h"

namespace nmt {

// The training loop: batches, updates, validation, checkpoints. Whatever happens to the process, the next run goes on
// from PREFIX.state and gives the bits of a run that was never stopped, files and costs in the log included. Files,
// PREFIX being the model's path without .safetensors:
//   PREFIX.safetensors              the model after the last save
//   PREFIX.iterN.safetensors        the model at update N (PREFIX.epochN, after epoch N, where saves are by epoch)
//   PREFIX.best-METRIC.safetensors  the best model by a metric of validation
//   PREFIX.state                    everything to go on from: written last, so what it says is there
class Trainer {
 public:
  // `dump`: the options as a configuration file, stored in checkpoints.
  Trainer(const TrainOptions& options, std::string dump);

  // Trains to the end. Throws Exit with 143 or 130 after a SIGTERM or SIGINT (saved), Error where training broke down,
  // UserError, before it reads the data, where the model cannot be written.
  void run();
  void dry_run();    // what the training would take
  void dump_plan();  // the plan of the first update, measured

 private:
  struct Step {
    double loss = 0;  // smoothed, a target token
    double norm = 0;  // of the gradient
    int64_t tokens = 0, sentences = 0;
    double wait = 0;  // seconds, for the batches
    Position next;
    bool epoch_ended = false;
  };

  void load_data();
  void start();  // a new model
  void start_or_resume();
  void resume(const std::string& checkpoint);
  uint64_t batching() const;
  std::vector<Batch> next_batches(Step& step);
  void accumulate(const std::vector<Batch>& batches, Step& step);
  void apply(const Step& step);  // updates the parameters, or skips; sets the gradients to zero
  void count(const Step& step);
  void count_seconds(double seconds);
  void display(const Step& step, std::map<std::string, double> part_norms);
  void report_epoch();
  void validate();
  void save(bool numbered);
  void remove_checkpoints();
  bool finished() const;
  double done_share() const;  // in [0, 1]; negative: the training has no end
  void parameters_changed();
  void bring_to_host();                    // parameters and the optimizer's state
  std::span<const float> served_values();  // smoothed parameters where there are such
  std::map<std::string, double> part_norms();
  std::string prefix() const;

  TrainOptions options_;
  std::string dump_;
  std::vector<Amount> ends_;
  Amount valid_every_, save_every_, display_every_;
  Runtime runtime_;
  std::shared_ptr<const Vocab> source_, target_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::shared_ptr<const Corpus> corpus_;
  std::unique_ptr<Prefetch<TrainingBatch>> batches_;
  std::unique_ptr<Validator> validator_;
  TrainLog log_;
  TrainingState state_;
  int64_t saved_at_ = -1;  // the update that PREFIX.state is of; -1: there is none of this run
};

}  // namespace nmt
