#include "decode/models.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace nmt {
namespace {

void require_fit(const Vocabularies& v, const ModelConfig& config, const std::string& model) {
  const auto fits = [&](const Vocab& vocab, const std::string& name, int size, int eos, const char* side) {
    require(vocab.size() == size && vocab.eos_id() == eos,
            "{}: the {} vocabulary has {} entries and </s> at {}, but the model {} has {} and {}", name, side,
            vocab.size(), vocab.eos_id(), model, size, eos);
  };
  fits(*v.source, v.source_name, config.source_vocabulary, config.source_eos, "source");
  fits(*v.target, v.target_name, config.target_vocabulary, config.eos, "target");
}

// Throws UserError that names the first difference.
void require_same(const Vocab& a, const std::string& a_name, const Vocab& b, const std::string& b_name,
                  const char* side) {
  if (a.bytes() == b.bytes()) return;
  const auto differ = fmt::format(
      "models of an ensemble must have one vocabulary, but the {} vocabularies of {} and {}", side, a_name, b_name);
  require(a.size() == b.size(), "{} have {} and {} entries", differ, a.size(), b.size());
  for (int id = 0; id < a.size(); ++id)
    require(a.piece(id) == b.piece(id), "{} differ: entry {} is '{}' and '{}'", differ, id, a.piece(id), b.piece(id));
  user_error("{} split text differently (same entries, other scores or settings)", differ);
}

}  // namespace

Vocabularies read_vocabularies(const std::vector<std::string>& files) {
  const auto [source, target] = Vocab::load_sides(files);
  return {source, target, files.front(), files.back()};
}

Vocabularies own_vocabularies(const Model& model, const std::string& path) {
  require(!model.target_vocabulary.empty(), "{} holds no vocabulary; give --vocabs", path);
  const auto source = Vocab::from_bytes(model.source_vocabulary, path);
  const auto target =
      model.target_vocabulary == model.source_vocabulary ? source : Vocab::from_bytes(model.target_vocabulary, path);
  return {source, target, path, path};
}

std::vector<Scorer> Models::load(const std::shared_ptr<Backend>& backend) {
  std::vector<Scorer> scorers;
  for (size_t i = 0; i < paths_.size(); ++i) {
    advise_on_memory(
        paths_.size() == 1 ? "a smaller model needs less" : "fewer or smaller models of --ensemble need less",
        [&] { models_.push_back(Model::load(paths_[i], backend)); });
    scorers.push_back({&models_.back()->transformer, &models_.back()->parameters, 1});
    if (!weights_.empty()) scorers[i].weight = weights_[i];
  }
  return scorers;
}

void Models::release(std::span<const float> values) {
  for (const auto& model : models_) model->release(values);
}

void Models::require_unchanged() const {
  for (const auto& model : models_) model->require_unchanged();
}

Vocabularies Models::vocabularies(const std::vector<std::string>& files) const {
  const auto first = files.empty() ? own_vocabularies(*models_[0], paths_[0]) : read_vocabularies(files);
  for (size_t i = 0; i < paths_.size(); ++i) {
    const Model& model = *models_[i];
    const auto own = i == 0 || !files.empty() ? first : own_vocabularies(model, paths_[i]);
    require_fit(own, model.transformer.config(), paths_[i]);
    if (!model.source_vocabulary.empty() &&
        (own.source->bytes() != model.source_vocabulary || own.target->bytes() != model.target_vocabulary))
      log::warn("{} was trained with other vocabularies than {}", paths_[i], fmt::join(files, " and "));
    require_same(*first.source, paths_[0], *own.source, paths_[i], "source");
    require_same(*first.target, paths_[0], *own.target, paths_[i], "target");
  }
  return first;
}

bool Models::are_parsers() const {
  const auto parsers =
      std::ranges::count_if(models_, [](const auto& m) { return m->transformer.config().target_trees; });
  require(parsers == 0 || parsers == std::ssize(models_),
          "--ensemble: some of the models are parsers, and some are not");
  return parsers > 0;
}

}  // namespace nmt
