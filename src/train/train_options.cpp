#include "train/train_options.h"

#include <algorithm>
#include <climits>
#include <filesystem>

#include "base/error.h"
#include "config/computing.h"
#include "config/option_files.h"
#include "decode/search_options.h"
#include "io/model_file.h"
#include "io/training_files.h"
#include "train/amount.h"
#include "train/checkpoint_state.h"
#include "train/learning_rate.h"
#include "train/tasks.h"
#include "train/valid_metrics.h"

namespace nmt {
namespace {

// --mini-batch-words sets two options, but for one that was given by what counts more.
void settle_batch_words(Options& o, DataOptions& data) {
  const DataOptions usual;
  const int64_t words = data.mini_batch_words;
  if (words == 0) return;
  const auto source_of = [&](const char* name) {
    const Option* option = o.find(name);
    return option->given() ? option->source() : INT_MAX;
  };
  const int both = source_of("mini-batch-words");
  const int source = source_of("batch-source-words"), target = source_of("batch-target-words");
  require((source != both || data.batch_source_words == usual.batch_source_words) &&
              (target != both || data.batch_target_words == usual.batch_target_words),
          "--mini-batch-words sets --batch-source-words and --batch-target-words: give either it or them");
  const bool own_source = source < both, own_target = target < both;
  if (!own_source) data.batch_source_words = own_target ? words : usual.batch_source_words;
  if (!own_target) data.batch_target_words = own_source ? words : usual.batch_target_words;
  if (own_source || own_target) data.mini_batch_words = 0;
}

}  // namespace

void TrainOptions::declare(Options& o) {
  const auto amount = [](std::string name) { return [name](const std::string& text) { Amount::parse(name, text); }; };
  std::vector<std::string> task_names, schedule_names;
  for (const Task& t : tasks()) task_names.push_back(t.name);
  for (const Schedule& s : schedules()) schedule_names.push_back(s.name);
  o.group("What to train");
  o.add("task", task, "A whole recipe by name; options given besides it win").choices(task_names);
  o.add("model", model_path, "The model file to write; checkpoints stand beside it").short_name('m');
  o.add("vocabs", vocabs, "Vocabulary of both sides, or of source and target");
  o.add("pretrained-model", pretrained_model,
        "Begin with the parameters of this model, not at random: to learn other text, or with other options. "
        "Architecture and vocabularies are the model's, dropout unless options give it; a --task's are ignored");
  data.declare(o);
  model.declare(o);
  o.add("transformer-depth-scaling", depth_scaling,
        "Start the matrices that end a sub-layer smaller, by (encoder + decoder layers)^-0.5: deep models on little "
        "data learn with it");
  o.group("Optimisation");
  o.add("learn-rate", learn_rate, "Highest learning rate; 0: the paper's, d_model^-0.5 * warm-up^-0.5").range(0, 100);
  o.add("lr-scale", lr_scale, "Multiplies the paper's learning rate").range(0, 1000);
  o.add("lr-warmup", lr_warmup, "Updates over which the learning rate rises; then --lr-schedule says what follows")
      .range(1, 1e9);
  o.add("lr-schedule", lr_schedule, "What follows the warm-up").choices(schedule_names);
  o.add("optimizer-params", adam, "Adam's beta1, beta2 and epsilon");
  o.add("label-smoothing", label_smoothing, "Probability spread evenly over the vocabulary in the training loss")
      .range(0, 0.99);
  o.add("clip-norm", clip_norm, "Longest gradient; a longer one is shortened to it; 0: never").range(0, 1e9);
  o.add("exponential-smoothing", exponential_smoothing,
        "Keep parameters averaged over updates, new ones with this weight (more at first), for validation and the "
        "saved model; 0: off")
      .range(0, 1);
  o.add("optimizer-delay", optimizer_delay, "Batches whose gradients make one update").range(1, 100000);
  o.add("skip-factor", skip_factor,
        "Skip an update whose gradient is this many times longer than their running mean; 0: only one beyond 1e18")
      .range(0, 1e9);
  o.add("skip-limit", skip_limit, "End after so many skipped updates in a row").range(1, 1e9);
  o.add("seed", seed, "Seed of everything that is random");
  o.group("Length of the training");
  o.add("after", after,
        "Stop after updates (100Ku), epochs (10e), target tokens (1Gt) or time (30min; that of updates, in all runs: "
        "loading, validating and saving do not count), the first of a list such as 10e,2h; 0: never")
      .check([](const std::string& text) { Amount::parse_list("after", text); });
  o.group("Computing");
  o.add("precision", precision,
        "Matrix products and activations; auto: bf16 on CPUs with AVX-512 and on GPUs; tf32, f16: on GPUs only")
      .choices({"auto", "f32", "tf32", "bf16", "f16"});
  declare_devices(o, devices);
  o.add("exchange-precision", exchange_precision,
        "Gradients as several devices send them to one another; bf16 halves what is sent and rounds their sums")
      .choices({"f32", "bf16"});
  declare_threads(o, threads);
  o.group("Validation");
  o.add("valid-sets", valid_sets, "Source and target of the validation set");
  o.add("valid-metrics", valid_metrics,
        "What to measure; early stopping looks at the first. cross-entropy: natural logarithm, a target token (</s> is "
        "one), without label smoothing; perplexity: its exponential; brackets: a parser's F1")
      .choices(valid_metric_names());
  o.add("valid-freq", valid_freq, "Validate every so many updates, epochs, tokens or minutes; 0: at the end only")
      .check(amount("valid-freq"));
  o.add("valid-batch-words", valid_batch_words, "Source tokens, and target tokens, of a validation batch at most")
      .range(1, 1e9);
  o.add("early-stopping", early_stopping, "End after so many validations without a better value; 0: never")
      .range(0, 1e9);
  o.add("valid-translation-output", valid_output,
        "Write the translations of the validation set, or a parser's tokens, here ({U}: the update)");
  search.declare_beam(o);
  o.group("Saving");
  o.add("save-freq", save_freq,
        "Save every so many updates, epochs, tokens or minutes (0: never), at the end, and, without a numbered model, "
        "after a validation that finds a new best one")
      .check(amount("save-freq"));
  o.add("keep-last", keep_last,
        "How many numbered models to keep of the kind that is saved, of earlier runs too; 0: all")
      .range(0, 1e9);
  o.add("restart", restart,
        "Begin anew although a checkpoint exists; it, the numbered and the best models are removed");
  o.group("Reports");
  o.add("disp-freq", disp_freq, "Print a line every so many updates, epochs, tokens or seconds; 0: the first only")
      .check(amount("disp-freq"));
  o.add("log", log_file, "Append the log to this file too");
  o.add("log-json", log_json, "Append the log to this file, one JSON object a line");
  o.add("log-gradients", log_gradients, "Print the gradient's norm of each part of the model with each line");
  o.add("quiet", quiet, "Only warnings and errors");
  o.add("list-devices", list_devices, "Print the GPUs that --devices can name, and end");
  o.add("cost", cost, "With --dry-run: count the floating point operations of the whole training");
  o.add("dry-run", dry_run,
        "Print parameters, memory, updates of an epoch and the estimated time, and end; nothing is written");
  o.add("dump-plan", dump_plan, "Print the plan of the first update as a table, and end; nothing is written");
  o.add("profile", profile, "Print where the time went to standard output, by phase and by op, at the end");
}

void TrainOptions::settle(Options& o) {
  const auto set = [&](const std::string& name, const std::vector<std::string>& value) {
    Option* option = o.find(name);
    check(option != nullptr, "task {} sets the unknown option {}", task, name);
    if (!option->given()) option->set(value);
  };
  if (const std::string model_file = begun_with(); !model_file.empty()) {
    const auto config_of = [](const ModelFile& file) { return ModelConfig::from_json(file.config(), file.path()); };
    ModelConfig config = model_file == pretrained_model
                             ? config_of(ModelFile::open_served(model_file))
                             : advise_on_checkpoint([&] { return config_of(ModelFile::open(model_file)); });
    Options of_model;
    config.declare(of_model);
    for (const Option& option : of_model.all()) set(option.name(), option.get());
  }
  if (!task.empty())
    for (const auto& [name, value] : std::ranges::find(tasks(), task, &Task::name)->settings) set(name, {value});
  o.end_source();
  settle_batch_words(o, data);
  if (model.target_trees) search.settle_for_parser(o);
}

std::string TrainOptions::begun_with() const {
  if (pretrained_model.empty() || !trains() || restart) return pretrained_model;
  std::error_code failed;
  const std::string checkpoint = TrainingFiles(model_path).state();
  return std::filesystem::exists(checkpoint, failed) ? checkpoint : pretrained_model;
}

bool TrainOptions::measures_cross_entropy() const {
  return std::ranges::any_of(valid_metrics, [](const auto& name) { return !valid_metric(name).translates; });
}

bool TrainOptions::translates() const {
  return !valid_output.empty() ||
         std::ranges::any_of(valid_metrics, [](const auto& name) { return valid_metric(name).translates; });
}

std::string TrainOptions::translations_path(int64_t update) const { return with_number(valid_output, update); }

void TrainOptions::validate(OptionFiles files) const {
  const auto is_beta = [](double beta) { return beta >= 0 && static_cast<float>(beta) < 1; };
  require(adam.size() == 3 && is_beta(adam[0]) && is_beta(adam[1]) && adam[2] >= 1e-30 && adam[2] <= 1,
          "--optimizer-params takes beta1 and beta2 in [0, 1), float32 numbers below 1, and an epsilon of 1e-30 to 1");
  require(log_file != "-" && log_json != "-", "--log and --log-json are files; the log is on standard error as it is");
  for (const auto& metric : valid_metrics)
    require(std::ranges::count(valid_metrics, metric) == 1, "--valid-metrics: {} is given twice", metric);
  require(!model.target_trees || !data.max_length_crop,
          "--max-length-crop would cut the trees of --target-trees: leave it out");
  require(model.target_trees || !std::ranges::count(valid_metrics, kBracketsMetric),
          "--valid-metrics {} is a parser's: --target-trees is not given", kBracketsMetric);
  require(data.train_sets.size() % 2 == 0,
          "--train-sets takes a source and a target file, or several such pairs, not {} files (in a configuration each "
          "file has a line of its own)",
          data.train_sets.size());
  require(valid_sets.empty() || valid_sets.size() == 2, "--valid-sets takes a source and a target file, not {} files",
          valid_sets.size());
  require(data.max_length < model.longest(),
          "--max-length {} lets in pairs of {} tokens with the end token, but --transformer-max-positions is {}: make "
          "one smaller or the other larger",
          data.max_length, data.max_length + 1, model.longest());
  require(early_stopping == 0 || Amount::parse("valid-freq", valid_freq).count > 0,
          "--early-stopping needs validations on the way: --valid-freq is 0");
  for (size_t at = 0, end; (at = valid_output.find('{', at)) != std::string::npos; at = end) {
    end = std::min(valid_output.find('}', at), valid_output.size() - 1) + 1;
    const std::string placeholder = valid_output.substr(at, end - at);
    require(placeholder == "{U}", "--valid-translation-output: {} stands for nothing; {{U}} is the update",
            placeholder);
  }
  const TrainingFiles own(model_path);  // looks at the name, of a dry run's model, too
  if (trains()) {
    own.refuse_numbered(valid_metric_names());
    for (const auto& [option, path] :
         {std::pair("log", log_file), {"log-json", log_json}, {"valid-translation-output", translations_path(0)}})
      if (!path.empty()) own.refuse_own(option, path);
  }
  require(exchange_precision == "f32" || devices.size() > 1,
          "--exchange-precision is for several --devices, which exchange gradients");
  require(!cost || dry_run, "--cost is told by --dry-run: give that too");
  require(!dry_run || !dump_plan, "--dry-run and --dump-plan each end the program: give one of them");
  require(!profile || trains(), "--profile is of a training: leave out --{}", dry_run ? "dry-run" : "dump-plan");
  refuse_idle_options();
  files.opens("pretrained-model", pretrained_model)
      .opens("vocabs", vocabs)
      .reads("train-sets", data.train_sets)
      .reads("valid-sets", valid_sets);
  if (trains()) files.writes("model", model_path).writes("model", TrainingFiles(model_path).state());
  files.writes("log", log_file).writes("log-json", log_json);
  files.writes_numbered("valid-translation-output", valid_output);
}

// Options that would do nothing.
void TrainOptions::refuse_idle_options() const {
  const TrainOptions usual;
  const SearchOptions usual_search = model.target_trees ? SearchOptions::parsing() : SearchOptions();
  const std::pair<const char*, bool> of_validation[] = {
      {"valid-metrics", valid_metrics != usual.valid_metrics},
      {"valid-freq", valid_freq != usual.valid_freq},
      {"valid-batch-words", valid_batch_words != usual.valid_batch_words},
      {"early-stopping", early_stopping != 0},
      {"valid-translation-output", !valid_output.empty()}};
  const std::pair<const char*, bool> of_search[] = {{"beam-size", search.beam != usual_search.beam},
                                                    {"alpha", search.alpha != usual_search.alpha}};
  const auto need_valid_sets = [&](const auto& options) {
    for (const auto& [name, is_set] : options)
      require(!is_set || !trains() || !valid_sets.empty(), "--{} needs --valid-sets", name);
  };
  need_valid_sets(of_validation);
  need_valid_sets(of_search);
  for (const auto& [name, is_set] : of_search)
    require(!is_set || !trains() || translates(),
            "--{} is for translations: no metric of --valid-metrics needs them, nor does --valid-translation-output",
            name);
  const auto has_layer = [&](const char* kind) { return model.encoder_layer == kind || model.decoder_layer == kind; };
  require(model.train_positions || model.max_positions == usual.model.max_positions,
          "--transformer-max-positions is for --transformer-train-position-embeddings; sinusoids have no end");
  require(has_layer("convolution") || model.kernel_width == usual.model.kernel_width,
          "--transformer-kernel-width is for layers of convolution");
  require(has_layer("self-attention") || model.attention_window == usual.model.attention_window,
          "--transformer-attention-window is for self-attention, which no layer has");
  require(!depth_scaling || pretrained_model.empty(),
          "--transformer-depth-scaling is for parameters that begin at random: those of --pretrained-model do not");
  require(lr_scale == 1 || learn_rate == 0,
          "--lr-scale is for the paper's learning rate: leave it out, or give --learn-rate 0");
}

}  // namespace nmt
