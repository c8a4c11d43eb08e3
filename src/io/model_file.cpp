#include "io/model_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/utf8.h"
#include "io/floats.h"

namespace nmt {
namespace {

void require_format(const std::string& path, const std::string* text) {
  require(text != nullptr, "{} is not an nmt model: its metadata has no {}", path, kFormatKey);
  const auto version = parse_number<int>(*text);
  require(version && *version >= 1, "{}: {} '{}' is not a version", path, kFormatKey, printable(*text));
  require(*version <= kModelFormat, "{}: the model has format {}, this program reads up to {}: use a newer nmt", path,
          *version, kModelFormat);
}

void require_config(const std::string& path, const std::string* text) {
  require(text != nullptr, "{} is not an nmt model: its metadata has no {}", path, kConfigKey);
  require(parse_json(*text).is_object(), "{}: {} is not a JSON object, or is nested deeper than {} levels", path,
          kConfigKey, kDeepestJson);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

bool is_vocabulary(std::string_view tensor_name) {
  return tensor_name == kVocabulary || tensor_name == kSourceVocabulary || tensor_name == kTargetVocabulary;
}

bool is_training_state(std::string_view tensor_name) {
  return tensor_name.starts_with(kAdamMeanPrefix) || tensor_name.starts_with(kAdamVariancePrefix) ||
         tensor_name.starts_with(kSmoothedPrefix);
}

bool is_architecture(std::string_view config_key) { return !config_key.starts_with("transformer-dropout"); }

ModelFile ModelFile::open(const std::string& path) {
  ModelFile model(SafetensorsFile::open(path));
  require_format(path, model.metadata(kFormatKey));
  require_config(path, model.metadata(kConfigKey));
  for (const auto name : {kVocabulary, kSourceVocabulary, kTargetVocabulary}) {
    const auto* tensor = model.file_.find(name);
    require(tensor == nullptr || (tensor->dtype == DType::kU8 && tensor->shape.rank() == 1),
            "{}: tensor {} is not a list of bytes", path, name);
  }
  const bool source = model.has(kSourceVocabulary), target = model.has(kTargetVocabulary);
  require(source == target && !(source && model.has(kVocabulary)), "{}: a model has the tensor {}, or {} and {}", path,
          kVocabulary, kSourceVocabulary, kTargetVocabulary);
  return model;
}

ModelFile ModelFile::open_served(const std::string& path) {
  ModelFile model = open(path);
  const bool smooths = std::ranges::any_of(model.file_.tensors(),
                                           [](const TensorInfo& t) { return t.name.starts_with(kSmoothedPrefix); });
  require(!smooths,
          "{} is the checkpoint of a training with --exponential-smoothing: give its model, which is smoothed", path);
  return model;
}

std::string_view ModelFile::vocabulary(std::string_view name) const {
  const auto* tensor = file_.find(shared_vocabulary() ? kVocabulary : name);
  require(tensor != nullptr, "{}: the file holds no vocabulary", path());
  return {reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()};
}

const TensorInfo& ModelFile::parameter(std::string_view name, const Shape& shape) const {
  const auto* tensor = file_.find(name);
  require(tensor != nullptr, "{}: parameter {} is missing", path(), name);
  require(tensor->shape == shape, "{}: parameter {} has the shape {}, {} is expected", path(), name, tensor->shape,
          shape);
  require_float(path(), *tensor);
  return *tensor;
}

void ModelFile::read(std::string_view name, const Shape& shape, std::span<float> out) const {
  const TensorInfo& tensor = parameter(name, shape);
  require_finite(path(), tensor, tensor.data);
  convert_to_float(tensor.dtype, tensor.data, out);
}

void require_float(const std::string& path, const TensorInfo& tensor) {
  require(fits_float(tensor.dtype), "{}: parameter {} has the type {}; f32, bf16 or f16 is expected", path,
          printable(tensor.name), name_of(tensor.dtype));
}

void require_finite(const std::string& path, const TensorInfo& tensor, std::span<const std::byte> part, int64_t first) {
  const int64_t index = first_not_finite(tensor.dtype, part);
  require(index < 0, "{}: parameter {} holds NaN or infinite values (first at index {})", path, printable(tensor.name),
          first + index);
}

void write_model(const std::string& path, const ModelContent& content) {
  check(content.metadata.count(std::string(kConfigKey)) == 1, "a model without {}", kConfigKey);
  SafetensorsWriter writer(path);
  for (const auto& [key, value] : content.metadata) writer.set_metadata(key, value);
  writer.set_metadata(std::string(kFormatKey), std::to_string(kModelFormat));
  // Bytes last: floats stay aligned.
  for (const auto& tensor : content.tensors) writer.declare(tensor.name, DType::kF32, tensor.shape);
  std::vector<std::pair<std::string, std::string_view>> vocabularies;
  if (content.source_vocabulary == content.target_vocabulary)
    vocabularies = {{std::string(kVocabulary), content.source_vocabulary}};
  else
    vocabularies = {{std::string(kSourceVocabulary), content.source_vocabulary},
                    {std::string(kTargetVocabulary), content.target_vocabulary}};
  for (const auto& [name, bytes] : vocabularies) writer.declare(name, DType::kU8, {static_cast<int64_t>(bytes.size())});
  for (const auto& tensor : content.tensors) writer.write(tensor.name, std::as_bytes(tensor.values));
  for (const auto& [name, bytes] : vocabularies) writer.write(name, bytes_of(bytes));
  writer.commit();
}

}  // namespace nmt
