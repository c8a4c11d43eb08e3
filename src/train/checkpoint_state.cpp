#include "train/checkpoint_state.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/model_file.h"

namespace nmt {
namespace {

nlohmann::json to_json(const BatchCounts& c) {
  return {c.batches, c.sentences, c.source_words, c.target_words, c.padding};
}

BatchCounts counts_from(const nlohmann::json& json) {
  return {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4)};
}

std::string to_json(const TrainingState& s) {
  return nlohmann::ordered_json{{"updates", s.progress.updates},
                                {"epochs", s.progress.epochs},
                                {"epoch-ended", s.progress.epoch_ended},
                                {"sentences", s.progress.sentences},
                                {"tokens", s.progress.tokens},
                                {"seconds", s.progress.seconds},
                                {"position", {s.position.epoch, s.position.window, s.position.batch}},
                                {"corpus", s.corpus},
                                {"batching", s.batching},
                                {"seed", s.seed},
                                {"mean-norm", s.mean_norm},
                                {"skipped", s.skipped},
                                {"skipped-in-row", s.skipped_in_row},
                                {"best", s.best},
                                {"stalled", s.stalled},
                                {"history", s.history},
                                {"shown", {s.shown.loss, s.shown.seconds, s.shown.wait, s.shown.tokens}},
                                {"shown-batches", to_json(s.shown.counts)},
                                {"epoch-batches", to_json(s.epoch)}}
      .dump();
}

TrainingState from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  TrainingState s;
  json.at("updates").get_to(s.progress.updates);
  json.at("epochs").get_to(s.progress.epochs);
  json.at("epoch-ended").get_to(s.progress.epoch_ended);
  json.at("sentences").get_to(s.progress.sentences);
  json.at("tokens").get_to(s.progress.tokens);
  json.at("seconds").get_to(s.progress.seconds);
  s.position = {json.at("position").at(0), json.at("position").at(1), json.at("position").at(2)};
  json.at("corpus").get_to(s.corpus);
  json.at("batching").get_to(s.batching);
  json.at("seed").get_to(s.seed);
  json.at("mean-norm").get_to(s.mean_norm);
  json.at("skipped").get_to(s.skipped);
  json.at("skipped-in-row").get_to(s.skipped_in_row);
  json.at("best").get_to(s.best);
  json.at("stalled").get_to(s.stalled);
  json.at("history").get_to(s.history);
  const auto& shown = json.at("shown");
  s.shown = {shown.at(0), shown.at(1), shown.at(2), shown.at(3), counts_from(json.at("shown-batches"))};
  s.epoch = counts_from(json.at("epoch-batches"));
  return s;
}

}  // namespace

void write_checkpoint(const std::string& path, const Model& model, Optimizer& optimizer, const TrainingState& state,
                      const std::string& options) {
  ModelContent content;
  content.metadata[std::string(kConfigKey)] = model.transformer.config().to_json();
  content.metadata[std::string(kProgressKey)] = to_json(state);
  content.metadata[std::string(kTrainingKey)] = options;
  content.source_vocabulary = model.source_vocabulary;
  content.target_vocabulary = model.target_vocabulary;
  content.shared_vocabulary = model.shared_vocabulary;
  const auto add = [&](std::string_view prefix, std::span<const float> buffer) {
    for (const auto& e : model.parameters.entries())
      content.tensors.push_back(
          {std::string(prefix) + e.name, e.shape,
           buffer.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.shape.elements()))});
  };
  add("", model.parameters.values());
  add(kAdamMeanPrefix, optimizer.mean());
  add(kAdamVariancePrefix, optimizer.variance());
  if (!optimizer.smoothed().empty()) add(kSmoothedPrefix, optimizer.smoothed());
  write_model(path, content);
}

TrainingState read_checkpoint(const std::string& path, Model& model, Optimizer& optimizer) {
  const ModelFile file = ModelFile::open(path);
  require(file.config() == model.transformer.config().to_json(),
          "{} belongs to another model: its configuration differs", path);
  require(file.source_vocabulary() == model.source_vocabulary && file.target_vocabulary() == model.target_vocabulary,
          "{} belongs to another vocabulary", path);
  const std::string* progress = file.metadata(kProgressKey);
  require(progress != nullptr, "{} is a model without the state of its training", path);
  TrainingState state;
  bool sound = false;
  try {
    state = from_json(*progress);
    const auto& p = state.progress;
    sound = std::min({p.updates, p.epochs, p.sentences, p.tokens}) >= 0 && p.seconds >= 0 && state.skipped >= 0 &&
            state.skipped <= p.updates;
  } catch (const nlohmann::json::exception&) {
  }
  require(sound, "{}: the state of the training is damaged", path);
  const auto read = [&](std::string_view prefix, std::span<float> buffer) {
    for (const auto& e : model.parameters.entries())
      file.read(std::string(prefix) + e.name, e.shape,
                buffer.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.shape.elements())));
  };
  read("", model.parameters.values());
  read(kAdamMeanPrefix, optimizer.mean());
  read(kAdamVariancePrefix, optimizer.variance());
  optimizer.start_smoothing(model.parameters.values());
  if (!optimizer.smoothed().empty() && file.has(std::string(kSmoothedPrefix) + model.parameters.entries().front().name))
    read(kSmoothedPrefix, optimizer.smoothed());
  return state;
}

}  // namespace nmt
