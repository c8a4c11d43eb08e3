#include "nn/model.h"

#include "base/error.h"
#include "io/model_file.h"

namespace nmt {

std::unique_ptr<Model> Model::load(const std::string& path) {
  const ModelFile file = ModelFile::open(path);
  const ModelConfig config = ModelConfig::from_json(file.config(), path);
  auto model = std::make_unique<Model>(config);
  // Sizes are compared before memory is taken: a hostile configuration must not ask for more than the file holds.
  for (const auto& e : model->parameters.entries()) {
    const TensorInfo* tensor = file.file().find(e.name);
    require(tensor != nullptr, "{}: parameter {} is missing", path, e.name);
    require(tensor->shape == e.shape, "{}: parameter {} has shape {}, not {}", path, e.name, tensor->shape.str(),
            e.shape.str());
  }
  model->parameters.allocate(false);
  for (const auto& e : model->parameters.entries()) file.read(e.name, e.shape, model->parameters.values(e));
  if (file.has_vocabulary()) {
    model->source_vocabulary = file.source_vocabulary();
    model->target_vocabulary = file.target_vocabulary();
    model->shared_vocabulary = file.shared_vocabulary();
  }
  return model;
}

void Model::save(const std::string& path, std::span<const float> values) const {
  ModelContent content;
  content.metadata[std::string(kConfigKey)] = transformer.config().to_json();
  content.source_vocabulary = source_vocabulary;
  content.target_vocabulary = target_vocabulary;
  content.shared_vocabulary = shared_vocabulary;
  for (const auto& e : parameters.entries())
    content.tensors.push_back(
        {e.name, e.shape, values.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.shape.elements()))});
  write_model(path, content);
}

}  // namespace nmt
