#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/model_file.h"
#include "nn/transformer.h"

namespace nmt {

// A Transformer with its parameters and serialised vocabularies: what a model file holds.
struct Model {
  Transformer transformer;
  Parameters parameters;
  std::string source_vocabulary, target_vocabulary;  // bytes that Vocab::from_bytes reads

  std::optional<ModelFile> file;  // where the parameters lie, if not in memory of their own

  explicit Model(const ModelConfig& config) : transformer(config) { transformer.declare(parameters); }

  // The configuration and the vocabularies of a file alone, without parameters. Throws UserError.
  static std::unique_ptr<Model> described(const ModelFile& file);
  // Throws UserError for a file that is no model or whose parameters do not fit its configuration. Where they lie in
  // the file as they do in memory (as in those that nmt writes), they are read from there when they are needed.
  static std::unique_ptr<Model> load(const std::string& path, const std::shared_ptr<Backend>& backend = host_backend());
  // These parameters, if they are this model's, are not needed for now: their memory may be given back.
  void release(std::span<const float> values) const;
  // Throws Error where somebody has written to the file since the load, if parameters lie there: also those of a device
  // may be read from it (SearchModel collects what a shortlist allows).
  void require_unchanged() const;
  // Throws Error or UserError as AtomicFile does.
  void save(const std::string& path, std::span<const float> values) const;

  // What save writes, as views of this model and of `values`: the values need not be the model's own (smoothed ones),
  // their layout is that of parameters.values().
  ModelContent content(std::span<const float> values) const;
  // Appends a tensor PREFIX + NAME for each parameter, from a buffer of the layout of parameters.values(); and reads
  // them back. Reading throws UserError as ModelFile::read does.
  void add_tensors(ModelContent& content, std::string_view prefix, std::span<const float> buffer) const;
  void read_tensors(const ModelFile& file, std::string_view prefix, std::span<float> buffer) const;
};

}  // namespace nmt
