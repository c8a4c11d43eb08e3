#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/models.h"
#include "decode/tree_grammar.h"
#include "nn/model.h"
#include "text/batch_stream.h"
#include "text/corpus.h"
#include "train/replicas.h"
#include "train/train_options.h"
#include "train/validator.h"

namespace nmt {

// What a training is made of before its first update.
struct TrainingSetup {
  // Reads the vocabularies and the model to begin with, and makes the model. The options are the given ones with what
  // these files say. Throws UserError where they do not fit one another, OutOfMemory with advice.
  explicit TrainingSetup(const TrainOptions& given);
  TrainingSetup(const TrainingSetup&) = delete;  // what it holds points to the options and the model
  TrainingSetup& operator=(const TrainingSetup&) = delete;

  // Reads the training and validation data. Throws UserError as Corpus and Validator do.
  void load_data();
  // Gives the model its first parameters: those of --pretrained-model, or random ones.
  void initialise();
  // The moments of no update, and the model's values, to the devices.
  void start(const Update& last = {}) { replicas->start(*moments, last); }
  // Takes the workspace of the largest batch, which it returns, a bound of those that may come. At once: what grew with
  // the batches would be new memory, which is slow, again and again.
  Batch reserve();
  // Logs what computes.
  void report() const;

  TrainOptions options;
  std::string begun_with;             // a checkpoint or --pretrained-model; empty: nothing
  std::unique_ptr<Model> pretrained;  // the model of that file; null for none
  Vocabularies vocabularies;
  std::optional<TreeGrammar> trees;  // of a parser
  std::unique_ptr<Model> model;
  std::unique_ptr<Moments> moments;
  std::unique_ptr<Replicas> replicas;
  std::shared_ptr<const Corpus> corpus;
  std::unique_ptr<Validator> validator;
};

// The batches of an update: so many, fewer where the epoch ends, as an update does not span epochs.
std::vector<TrainingBatch> next_update(const std::function<TrainingBatch()>& next, int optimizer_delay);

}  // namespace nmt
