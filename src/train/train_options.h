#pragma once

#include <string>
#include <vector>

#include "config/option_files.h"
#include "decode/search_options.h"
#include "nn/model_config.h"
#include "text/corpus_options.h"

namespace nmt {

// Everything that nmt-train is told.
struct TrainOptions {
  std::string task;
  std::string model_path = "model.safetensors";
  std::vector<std::string> vocabs;
  std::string pretrained_model;  // whose parameters, architecture and, without vocabs, vocabularies this training has
  bool depth_scaling = false;
  ModelConfig model;
  DataOptions data;

  // Optimisation; the defaults are those of sections 5.3 and 5.4.
  double learn_rate = 0;  // the highest; 0: lr_scale * d_model^-0.5 * lr_warmup^-0.5, as the paper's schedule has it
  double lr_scale = 1;
  int64_t lr_warmup = 4000;
  std::string lr_schedule = "inverse-sqrt";
  std::vector<double> adam = {0.9, 0.98, 1e-9};
  double label_smoothing = 0.1;
  double clip_norm = 0;
  double exponential_smoothing = 0;
  int optimizer_delay = 1;
  double skip_factor = 0;
  int skip_limit = 100;

  std::string after = "100Ku";
  uint64_t seed = 1;
  std::string precision = "auto", exchange_precision = "f32";
  int threads = 0;  // see threads_or_all
  std::vector<std::string> devices = {"auto"};

  std::vector<std::string> valid_sets;
  std::vector<std::string> valid_metrics = {"cross-entropy"};
  std::string valid_freq = "5Ku";
  int64_t valid_batch_words = 4000;
  int early_stopping = 0;
  std::string valid_output;
  SearchOptions search;  // validation's: its beam and penalty, and of a parser's trees the length

  std::string save_freq = "5Ku";
  int keep_last = 5;
  bool restart = false;

  std::string disp_freq = "100u";
  std::string log_file, log_json;
  bool log_gradients = false, quiet = false;

  bool list_devices = false, dry_run = false, cost = false, dump_plan = false, profile = false;

  bool scales_loss() const { return precision == "f16"; }  // see LossScale
  bool trains() const { return !dry_run && !dump_plan; }
  bool measures_cross_entropy() const;  // in validations
  bool translates() const;              // in validations
  // Where validation after so many updates writes its translations; empty: nowhere.
  std::string translations_path(int64_t update) const;

  // The model that this one begins with, empty for none: --pretrained-model; or the checkpoint that the training goes
  // on from, where there is one, whatever has become of that model.
  std::string begun_with() const;

  void declare(Options& options);
  // Fills in, where an option was not given, what the model that the training begins with says, the task's recipe and
  // a parser's search; and what --mini-batch-words sets.
  void settle(Options& options);
  // Throws UserError for options that contradict each other. files: what is read besides, as a configuration.
  void validate(OptionFiles files = {}) const;

 private:
  void refuse_idle_options() const;
};

}  // namespace nmt
