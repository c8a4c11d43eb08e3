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

// The training loop: batches, updates, validation, checkpoints. Files, PREFIX being the model's path without
// .safetensors:
//   PREFIX.safetensors              the model after the last save
//   PREFIX.iterN.safetensors        the model at update N (PREFIX.epochN where saves are by epoch)
//   PREFIX.best-METRIC.safetensors  the best model by a metric of validation
//   PREFIX.state                    everything to go on from: written last, so what it says is there
class Trainer {
 public:
  // `dump`: the options as a configuration file, stored in checkpoints.
  Trainer(const TrainOptions& options, std::string dump);

  // Trains to the end. Throws Exit with 143 or 130 after a SIGTERM or SIGINT (saved), Error where training broke down.
  void run();
  void dry_run();    // what the training would take
  void dump_plan();  // the plan of the first update, measured

 private:
  struct Step {
    double loss = 0;  // smoothed, a target token
    double norm = 0;  // of the gradient
    int64_t tokens = 0, sentences = 0;
    Position next;
    bool epoch_ended = false;
  };

  void load_data();
  void start_or_resume();
  std::vector<Batch> next_batches(Step& step);
  void accumulate(const std::vector<Batch>& batches, Step& step);
  bool apply(const Step& step);  // false: skipped
  void display(const Step& step);
  void validate();
  void save(bool numbered);
  bool finished() const;
  double done_share() const;
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
  BatchCounts epoch_counts_;
  std::map<std::string, double> norms_of_parts_;

  // Sums since the last line of the log.
  struct {
    double loss = 0, seconds = 0, wait = 0;
    int64_t tokens = 0;
    BatchCounts counts;
  } shown_;
};

}  // namespace nmt
