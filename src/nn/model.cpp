#include "nn/model.h"

#include "base/error.h"

namespace nmt {
namespace {

template <class T>
std::span<T> part(std::span<T> buffer, const Parameters::Entry& e) {
  return buffer.subspan(static_cast<size_t>(e.offset), static_cast<size_t>(e.shape.elements()));
}

// The file's parameters where they stand there one after another as in memory, checked; else nothing. used_here: not by
// a device alone.
std::span<float> in_place(ModelFile& file, const Parameters& parameters, bool used_here) {
  const float* first = nullptr;
  for (const auto& e : parameters.entries()) {
    const TensorInfo& tensor = file.parameter(e.name, e.shape);
    const auto* data = reinterpret_cast<const float*>(tensor.data.data());
    if (first == nullptr) first = data;
    if (tensor.dtype != DType::kF32 || data != first + e.offset) return {};
  }
  for (const auto& e : parameters.entries()) {
    const TensorInfo& tensor = file.parameter(e.name, e.shape);
    require_finite(file.path(), tensor, tensor.data);
    // Vectors are used as they are and lie between matrices, most of which are packed and then released.
    if (used_here && tensor.shape.rank() == 1)
      file.file().copy(tensor.data);
    else
      file.file().release(tensor.data);
  }
  return {const_cast<float*>(first), static_cast<size_t>(parameters.size())};  // see MappedFile
}

}  // namespace

std::unique_ptr<Model> Model::described(const ModelFile& file) {
  auto model = std::make_unique<Model>(ModelConfig::from_json(file.config(), file.path()));
  if (!file.has_vocabulary()) return model;
  model->source_vocabulary = file.source_vocabulary();
  model->target_vocabulary = file.target_vocabulary();
  return model;
}

std::unique_ptr<Model> Model::load(const std::string& path, const std::shared_ptr<Backend>& backend) {
  ModelFile file = ModelFile::open_served(path);
  auto model = described(file);
  try {
    if (!backend->on_host()) model->transformer.config().validate_for_devices();
  } catch (const UserError& error) {
    user_error("{}: {}", path, error.what());
  }
  // Sizes are compared before memory is taken: a hostile configuration must not ask for more than the file holds.
  for (const auto& e : model->parameters.entries()) file.parameter(e.name, e.shape);
  if (const auto values = in_place(file, model->parameters, backend->on_host()); !values.empty()) {
    model->parameters.borrow(values, backend);
    model->file = std::move(file);
    if (!backend->on_host()) {  // a device has its own
      model->release(values);
      model->file->file().require_unchanged();
    }
  } else {
    model->parameters.allocate(false, backend);
    model->read_tensors(file, "", model->parameters.values());
    file.file().require_unchanged();
    model->parameters.value_buffer().upload();
  }
  return model;
}

void Model::release(std::span<const float> values) const {
  const auto all = parameters.values();
  const bool ours = values.data() >= all.data() && values.data() + values.size() <= all.data() + all.size();
  if (file && ours) file->file().release(std::as_bytes(values));
}

void Model::require_unchanged() const {
  if (file) file->file().require_unchanged();
}

ModelContent Model::content(std::span<const float> values) const {
  ModelContent content{.metadata = {{std::string(kConfigKey), transformer.config().to_json()}},
                       .source_vocabulary = source_vocabulary,
                       .target_vocabulary = target_vocabulary,
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
