#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decode/search_model.h"
#include "nn/model.h"
#include "text/vocab.h"

namespace nmt {

struct Vocabularies {
  std::shared_ptr<const Vocab> source, target;
  std::string source_name, target_name;  // of their files

  bool shared() const { return source == target; }  // one for both sides: of equal bytes, too (Vocab::load_sides)
};

// Of these files: one for both sides, or source and target. Throws UserError as Vocab::load_sides does.
Vocabularies read_vocabularies(const std::vector<std::string>& files);
// Those in a model's file, `path`. Throws UserError where it has none.
Vocabularies own_vocabularies(const Model& model, const std::string& path);

// The model that translates, or those of an ensemble, from their files.
class Models {
 public:
  // weights: one for each model, or none.
  Models(std::vector<std::string> paths, std::vector<double> weights)
      : paths_(std::move(paths)), weights_(std::move(weights)) {}

  // A copy of each on a backend, which lives as long as this object.
  std::vector<Scorer> load(const std::shared_ptr<Backend>& backend);
  // See Model::release.
  void release(std::span<const float> values);
  void require_unchanged() const;  // see Model

  // Of models that are loaded: theirs, or of these files (one for both sides, or source and target). Throws UserError
  // where they have not the same, or do not fit these files.
  Vocabularies vocabularies(const std::vector<std::string>& files) const;
  // Whether they write trees. Throws UserError where only some do.
  bool are_parsers() const;

  const std::string& name() const { return paths_[0]; }

 private:
  std::vector<std::string> paths_;
  std::vector<double> weights_;
  std::vector<std::unique_ptr<Model>> models_;
};

}  // namespace nmt
