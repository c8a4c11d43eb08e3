#include "train/checkpoint_state.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "io/model_file.h"

namespace nmt {
namespace {

// Every field once: writing and reading visit them in this order. Several values of a name are a list. A new name goes
// into kLater, too.
template <class State, class Visit>
void visit(State& s, Visit&& field) {
  const auto sums = [&](const char* name, const char* batches, auto& of) {
    field(name, of.loss, of.seconds, of.wait, of.tokens);
    field(batches, of.counts.batches, of.counts.sentences, of.counts.source_words, of.counts.target_words,
          of.counts.padding);
  };
  field("updates", s.progress.updates);
  field("epochs", s.progress.epochs);
  field("epoch-ended", s.progress.epoch_ended);
  field("sentences", s.progress.sentences);
  field("tokens", s.progress.tokens);
  field("seconds", s.progress.seconds);
  field("position", s.position.epoch, s.position.window, s.position.batch);
  field("corpus", s.corpus);
  field("batching", s.batching);
  field("seed", s.seed);
  field("depth-scaling", s.depth_scaling);
  field("mean-norm", s.mean_norm);
  field("skipped", s.skipped);
  field("skipped-in-row", s.skipped_in_row);
  field("loss-scaling", s.loss_scale.value, s.loss_scale.updates);
  field("due", s.validation_due, s.save_due);
  field("validated", s.validated);
  field("looked", s.looked);
  field("best", s.best);
  field("measured-on", s.measured_on);
  field("stalled", s.stalled);
  sums("shown", "shown-batches", s.shown);
  sums("epoch", "epoch-batches", s.epoch);
  field("cost-tokens", s.shown.cost_tokens, s.epoch.cost_tokens);
}

std::string to_json(const TrainingState& state) {
  nlohmann::ordered_json json;
  visit(state, [&](const char* name, const auto&... values) {
    if constexpr (sizeof...(values) == 1)
      json[name] = (values, ...);
    else
      json[name] = nlohmann::ordered_json::array({values...});
  });
  return json_text(json);
}

constexpr int64_t kMost = int64_t{1} << 46;  // that a training goes on from without overflow, by --optimizer-delay

void require_count(int64_t value) { require(value >= -1 && value < kMost, "{} is no count", value); }

template <class T>
void read_value(const nlohmann::json& json, T& value) {
  require(!std::is_integral_v<T> || std::is_same_v<T, bool> || json.is_number_integer(), "{} is no integer",
          json.type_name());
  json.get_to(value);
  if constexpr (std::is_same_v<T, int64_t>) require_count(value);
  if constexpr (std::is_same_v<T, std::map<std::string, int64_t>>)
    for (const auto& [name, count] : value) require_count(count);
}

// Throws nlohmann::json::exception or UserError for what to_json did not write.
TrainingState from_json(const nlohmann::json& json) {
  // May be missing, as earlier versions did not write them.
  constexpr std::string_view kLater[] = {"loss-scaling", "measured-on", "depth-scaling", "due",
                                         "validated",    "looked",      "cost-tokens"};
  TrainingState state;
  visit(state, [&](const char* name, auto&... values) {
    if (std::ranges::count(kLater, name) > 0 && !json.contains(name)) return;
    const auto& found = json.at(name);
    size_t i = 0;
    (read_value(sizeof...(values) == 1 ? found : found.at(i++), values), ...);
  });
  if (!json.contains("cost-tokens"))
    for (TrainingSums* sums : {&state.shown, &state.epoch}) sums->cost_tokens = sums->tokens;
  if (!json.contains("validated")) state.validated = state.progress.updates;
  if (!json.contains("looked")) state.looked = state.progress.seconds;
  return state;
}

// Throws UserError for what a later version has written, which this one would leave out.
void require_known(const nlohmann::json& json, const std::string& path) {
  std::set<std::string> known = {"loss-scale", "validation"};  // written by earlier versions
  TrainingState state;
  visit(state, [&](const char* name, const auto&...) { known.insert(name); });
  if (!json.is_object()) return;  // is said where it is read
  for (const auto& [name, value] : json.items())
    require(known.contains(name), "{}: this version of nmt does not know the state '{}' of its training", path, name);
}

// Of the text of the progress and all floats, in their order in the file.
std::string hash_of(const std::string& progress, const std::vector<std::span<const std::byte>>& floats) {
  uint64_t hash = hash64(progress);
  for (const auto part : floats) hash = hash64(part, hash);
  return std::to_string(hash);
}

// A bit that a disk has turned would change all that follows.
void require_as_written(const ModelFile& file, const std::string& progress) {
  const std::string* written = file.metadata(kHashKey);
  if (written == nullptr) return;  // by an earlier version
  std::vector<std::span<const std::byte>> floats;
  for (const TensorInfo& tensor : file.file().tensors())
    if (!is_vocabulary(tensor.name)) floats.push_back(tensor.data);
  require(*written == hash_of(progress, floats), "{} is damaged: it does not hold what was written", file.path());
}

}  // namespace

void write_checkpoint(const std::string& path, const Model& model, const Moments& moments, const TrainingState& state,
                      const std::string& options) {
  const std::string progress = to_json(state);
  ModelContent content = model.content(model.parameters.values());
  content.metadata[std::string(kProgressKey)] = progress;
  content.metadata[std::string(kTrainingKey)] = repair_utf8(options);  // paths may be in any encoding
  model.add_tensors(content, kAdamMeanPrefix, moments.mean);
  model.add_tensors(content, kAdamVariancePrefix, moments.variance);
  if (!moments.smoothed.empty()) model.add_tensors(content, kSmoothedPrefix, moments.smoothed);
  std::vector<std::span<const std::byte>> floats;
  for (const NamedTensor& tensor : content.tensors) floats.push_back(std::as_bytes(tensor.values));
  content.metadata[std::string(kHashKey)] = hash_of(progress, floats);
  write_model(path, content);
}

TrainingState read_checkpoint(const std::string& path, Model& model, Moments& moments) {
  const ModelFile file = ModelFile::open(path);
  require(file.source_vocabulary() == model.source_vocabulary && file.target_vocabulary() == model.target_vocabulary,
          "{} belongs to another vocabulary", path);
  const std::string difference = ModelConfig::from_json(file.config(), path).difference(model.transformer.config());
  require(difference.empty(), "{} belongs to another model: its {}", path, difference);
  const std::string* progress = file.metadata(kProgressKey);
  require(progress != nullptr, "{} is a model without the state of its training", path);
  require_as_written(file, *progress);
  const auto json = parse_json(*progress);
  require_known(json, path);
  TrainingState state;
  bool sound = false;
  try {
    state = from_json(json);
    const auto& p = state.progress;
    sound = std::min({p.updates, p.epochs, p.sentences, p.tokens, state.skipped}) >= 0 && p.seconds >= 0 &&
            state.skipped <= p.updates && state.validated <= p.updates && state.looked >= 0 &&
            state.looked <= p.seconds && state.loss_scale.value > 0 &&
            state.position.epoch <= static_cast<uint64_t>(p.epochs) + 1 &&
            std::max(state.position.window, state.position.batch) < uint64_t{kMost};
  } catch (const nlohmann::json::exception&) {
  } catch (const UserError&) {
  }
  require(sound, "{}: the state of the training is damaged", path);
  model.read_tensors(file, "", model.parameters.values());
  model.read_tensors(file, kAdamMeanPrefix, moments.mean);
  model.read_tensors(file, kAdamVariancePrefix, moments.variance);
  require(std::ranges::all_of(moments.variance, [](float v) { return v >= 0; }),
          "{}: the state of the training is damaged: a variance is negative", path);
  moments.start_smoothing(model.parameters.values());
  const bool smooths = !moments.smoothed.empty(),
             smoothed = file.has(std::string(kSmoothedPrefix) + model.parameters.entries().front().name);
  if (smooths && smoothed) model.read_tensors(file, kSmoothedPrefix, moments.smoothed);
  if (smooths != smoothed)
    log::warn("{}: --exponential-smoothing {} here: models saved before are {}smoothed, those to come {}", path,
              smooths ? "begins" : "ends", smooths ? "not " : "", smooths ? "are" : "are not");
  return state;
}

}  // namespace nmt
