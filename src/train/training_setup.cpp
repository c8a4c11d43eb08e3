#include "train/training_setup.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint_state.h"
#include "train/train_log.h"

namespace nmt {
namespace {

// Those that the options name, else the model's that the training begins with. Both are the same: a checkpoint's are
// compared where it is read.
Vocabularies find_vocabularies(const TrainOptions& options, const Model* pretrained, const std::string& begun_with,
                               bool is_checkpoint) {
  if (pretrained != nullptr && options.vocabs.empty()) return own_vocabularies(*pretrained, begun_with);
  require(!options.vocabs.empty(), "--vocabs is missing (see --help)");
  const Vocabularies given = read_vocabularies(options.vocabs);
  if (pretrained != nullptr && !is_checkpoint) {
    const Vocabularies own = own_vocabularies(*pretrained, begun_with);
    require(given.source->bytes() == own.source->bytes() && given.target->bytes() == own.target->bytes(),
            "--pretrained-model {} has another vocabulary than --vocabs: leave that out", begun_with);
  }
  return given;
}

}  // namespace

TrainingSetup::TrainingSetup(const TrainOptions& given) : options(given), begun_with(given.begun_with()) {
  const bool is_checkpoint = begun_with != options.pretrained_model;
  advise_on_memory(Replicas::kAdvice, [&] {
    if (is_checkpoint)
      pretrained = advise_on_checkpoint([&] { return Model::described(ModelFile::open(begun_with)); });
    else if (!begun_with.empty())
      pretrained = Model::load(begun_with);
  });
  vocabularies = find_vocabularies(options, pretrained.get(), begun_with, is_checkpoint);
  const Vocabularies& v = vocabularies;
  ModelConfig& config = options.model;
  config.source_vocabulary = v.source->size();
  config.target_vocabulary = v.target->size();
  config.source_eos = v.source->eos_id();
  config.eos = v.target->eos_id();
  require(!config.tied_embeddings_all || v.shared(),
          "--tied-embeddings-all needs one vocabulary for both sides, but {} and {} differ: give one, or "
          "--no-tied-embeddings-all",
          v.source_name, v.target_name);
  config.validate();
  options.data.target_trees = config.target_trees;
  if (config.target_trees) trees.emplace(*v.target, v.shared(), v.target_name);
  const std::string difference =
      pretrained == nullptr || is_checkpoint ? "" : pretrained->transformer.config().difference(config);
  require(difference.empty(),
          "--pretrained-model {} has another architecture than the options name: its {}; leave them out", begun_with,
          difference);
  advise_on_memory(Replicas::kAdvice, [&] {
    model = std::make_unique<Model>(config);
    model->source_vocabulary = v.source->bytes();
    model->target_vocabulary = v.target->bytes();
    replicas = std::make_unique<Replicas>(options, *model);
    moments = std::make_unique<Moments>(model->parameters.size(), options.exponential_smoothing > 0);
  });
}

void TrainingSetup::load_data() {
  require(!options.data.train_sets.empty(), "--train-sets is missing (see --help)");
  if (!options.valid_sets.empty())
    validator =
        std::make_unique<Validator>(options, vocabularies.source, vocabularies.target, trees ? &*trees : nullptr);
  const double start = seconds_now();
  advise_on_memory("a smaller --shuffle-memory needs less", [&] {
    corpus = std::make_shared<Corpus>(options.data, vocabularies.source, vocabularies.target,
                                      replicas->first().pool().size());
  });
  const auto& c = corpus->counts();
  std::string skipped;
  if (c.kept < c.read)
    skipped = fmt::format(" ({} with an empty side, {} longer than --max-length {})", with_commas(c.empty),
                          with_commas(c.too_long), options.data.max_length);
  log::info("training data: {} pairs of {}{}, {} source and {} target tokens, read in {:.1f}s", with_commas(c.kept),
            with_commas(c.read), skipped, with_commas(c.source_words), with_commas(c.target_words),
            seconds_now() - start);
  warn_of_unknown("training data, source side", c.source_unknown, c.source_words - c.kept);
  warn_of_unknown("training data, target side", c.target_unknown, c.target_words - c.kept);
}

void TrainingSetup::initialise() {
  if (pretrained != nullptr) {
    const std::span<const float> values = pretrained->parameters.values();
    require(std::ssize(values) == model->parameters.size(), "{} is gone", begun_with);  // a checkpoint
    std::ranges::copy(values, model->parameters.values().begin());
    pretrained->require_unchanged();
    log::info("the parameters begin as those of {}", begun_with);
  } else {
    model->transformer.initialise(model->parameters, options.seed, options.depth_scaling);
  }
  moments->start_smoothing(model->parameters.values());
}

Batch TrainingSetup::reserve() {
  Batch largest = largest_batch(*corpus, options.data.limits(), static_cast<int64_t>(replicas->count()));
  replicas->reserve(largest);
  if (validator) validator->reserve(replicas->first(), *model);
  return largest;
}

void TrainingSetup::report() const {
  log::info("model: {} parameters; {}", with_commas(model->parameters.size()),
            replicas->first().text(replicas->names()));
}

std::vector<TrainingBatch> next_update(const std::function<TrainingBatch()>& next, int optimizer_delay) {
  std::vector<TrainingBatch> batches;
  while (static_cast<int>(batches.size()) < optimizer_delay) {
    batches.push_back(next());
    if (batches.back().ends_epoch()) break;
  }
  return batches;
}

}  // namespace nmt
