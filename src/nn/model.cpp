#include "nn/model.h"

namespace nmt {
namespace {

template <class T>
std::span<T> part(std::span<T> buffer, const Parameters::Entry& e) {
  return buffer.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.shape.elements()));
}

}  // namespace

std::unique_ptr<Model> Model::load(const std::string& path) {
  const ModelFile file = ModelFile::open(path);
  auto model = std::make_unique<Model>(ModelConfig::from_json(file.config(), path));
  // Sizes are compared before memory is taken: a hostile configuration must not ask for more than the file holds.
  for (const auto& e : model->parameters.entries()) file.parameter(e.name, e.shape);
  model->parameters.allocate(false);
  model->read_tensors(file, "", model->parameters.values());
  if (file.has_vocabulary()) {
    model->source_vocabulary = file.source_vocabulary();
    model->target_vocabulary = file.target_vocabulary();
    model->shared_vocabulary = file.shared_vocabulary();
  }
  return model;
}

ModelContent Model::content(std::span<const float> values) const {
  ModelContent content{.metadata = {{std::string(kConfigKey), transformer.config().to_json()}},
                       .source_vocabulary = source_vocabulary,
                       .target_vocabulary = target_vocabulary,
                       .shared_vocabulary = shared_vocabulary,
                       .tensors = {}};
  add_tensors(content, "", values);
  return content;
}

void Model::save(const std::string& path, std::span<const float> values) const { write_model(path, content(values)); }

void Model::add_tensors(ModelContent& content, std::string_view prefix, std::span<const float> buffer) const {
  for (const auto& e : parameters.entries())
    content.tensors.push_back({std::string(prefix) + e.name, e.shape, part(buffer, e)});
}

void Model::read_tensors(const ModelFile& file, std::string_view prefix, std::span<float> buffer) const {
  for (const auto& e : parameters.entries()) file.read(std::string(prefix) + e.name, e.shape, part(buffer, e));
}

}  // namespace nmt
