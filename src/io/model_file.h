#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

// A model or a checkpoint is one safetensors file: metadata, named float tensors (a parameter and its moments differ by
// a prefix), and the serialised vocabulary as U8 tensors, one if shared, else two.
namespace nmt {

inline constexpr std::string_view kFormatKey = "nmt.format";      // version of this layout
inline constexpr std::string_view kConfigKey = "nmt.config";      // JSON object: what the model is, and its dropout
inline constexpr std::string_view kTrainingKey = "nmt.training";  // configuration file: the options of the training
inline constexpr std::string_view kProgressKey = "nmt.progress";  // JSON object: amount trained, position, best values
inline constexpr std::string_view kHashKey = "nmt.hash";          // of a checkpoint's progress and floats
inline constexpr std::string_view kAverageKey = "nmt.average";    // JSON list: the files of an average, their weights

inline constexpr std::string_view kAdamMeanPrefix = "adam.m.";
inline constexpr std::string_view kAdamVariancePrefix = "adam.v.";
inline constexpr std::string_view kSmoothedPrefix = "ema.";  // exponentially smoothed parameters

inline constexpr std::string_view kVocabulary = "vocab";  // both sides', or
inline constexpr std::string_view kSourceVocabulary = "vocab.source", kTargetVocabulary = "vocab.target";

inline constexpr int kModelFormat = 1;

bool is_vocabulary(std::string_view tensor_name);
// Belongs to the training of a model and not to the model.
bool is_training_state(std::string_view tensor_name);
// Whether models whose configurations differ in this key are different functions: dropout is of the training alone.
bool is_architecture(std::string_view config_key);

class ModelFile {
 public:
  // Throws UserError for a file that is no model: format version, configuration, vocabulary tensors.
  static ModelFile open(const std::string& path);
  // The same to translate with or to average: not a checkpoint whose training serves its smoothed parameters, either.
  static ModelFile open_served(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsFile& file() const { return file_; }
  SafetensorsFile& file() { return file_; }
  const std::string& config() const { return *metadata(kConfigKey); }
  const std::string* metadata(std::string_view key) const { return file_.metadata(key); }

  bool has_vocabulary() const { return shared_vocabulary() || file_.find(kSourceVocabulary) != nullptr; }
  bool shared_vocabulary() const { return file_.find(kVocabulary) != nullptr; }
  std::string_view source_vocabulary() const { return vocabulary(kSourceVocabulary); }
  std::string_view target_vocabulary() const { return vocabulary(kTargetVocabulary); }

  bool has(std::string_view name) const { return file_.find(name) != nullptr; }

  // A float tensor. Throws UserError where it is missing or has another shape or type.
  const TensorInfo& parameter(std::string_view name, const Shape& shape) const;
  // Its values, converted to float32. Throws UserError for NaN and infinite ones, too.
  void read(std::string_view name, const Shape& shape, std::span<float> out) const;

 private:
  explicit ModelFile(SafetensorsFile file) : file_(std::move(file)) {}
  std::string_view vocabulary(std::string_view name) const;

  SafetensorsFile file_;
};

// Throws UserError for a tensor of another type than floats have in files.
void require_float(const std::string& path, const TensorInfo& tensor);

// Throws UserError `FILE: parameter NAME holds NaN or infinite values (first at index i)`; the part of the tensor's
// data begins at element `first`.
void require_finite(const std::string& path, const TensorInfo& tensor, std::span<const std::byte> part,
                    int64_t first = 0);

struct NamedTensor {
  std::string name;
  Shape shape;
  std::span<const float> values;
};

struct ModelContent {
  std::map<std::string, std::string> metadata;            // with kConfigKey; the format version is added
  std::string_view source_vocabulary, target_vocabulary;  // serialised; stored once where they are equal
  std::vector<NamedTensor> tensors;
};

// Written beside the target and renamed: a reader finds the old file or the whole new one.
void write_model(const std::string& path, const ModelContent& content);

}  // namespace nmt
