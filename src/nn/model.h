#pragma once

#include <memory>
#include <string>

#include "nn/transformer.h"

namespace nmt {

// A Transformer with its parameters and serialised vocabularies: what a model file holds.
struct Model {
  Transformer transformer;
  Parameters parameters;
  std::string source_vocabulary, target_vocabulary;  // bytes that Vocab::from_bytes reads
  bool shared_vocabulary = false;

  explicit Model(const ModelConfig& config) : transformer(config) { transformer.declare(parameters); }

  // Throws UserError for a file that is no model or whose parameters do not fit its configuration.
  static std::unique_ptr<Model> load(const std::string& path);
  // The values to write may be others than the model's own (smoothed ones): same layout as parameters.values().
  void save(const std::string& path, std::span<const float> values) const;
};

}  // namespace nmt
