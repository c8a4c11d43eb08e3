#include "io/average.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "io/floats.h"
#include "io/model_file.h"

namespace nmt {
namespace {

using json = nlohmann::json;

void require_same_config(const ModelFile& first, const ModelFile& other) {
  const auto a = parse_json(first.config()), b = parse_json(other.config());
  const auto value = [](const json& object, const std::string& key) {
    return object.contains(key) ? printable(json_text(object[key])) : "nothing";
  };
  json keys = a;
  keys.update(b);
  for (const auto& [key, unused] : keys.items())
    require(!is_architecture(key) || (value(a, key) == value(b, key) && a.value(key, json()) == b.value(key, json())),
            "{}: another architecture than {}: {} is {}, not {}", other.path(), first.path(), printable(key),
            value(b, key), value(a, key));
}

bool is_averaged(const TensorInfo& tensor) { return is_floating(tensor.dtype); }

void require_same_tensors(const ModelFile& first, const ModelFile& other) {
  for (const auto& a : first.file().tensors()) {
    if (is_training_state(a.name)) continue;
    const auto* b = other.file().find(a.name);
    const auto name = printable(a.name);
    require(b != nullptr, "{}: tensor {} of {} is missing", other.path(), name, first.path());
    const bool vocabulary = is_vocabulary(a.name);
    if (!vocabulary)
      require(b->shape == a.shape, "{}: tensor {} has the shape {}, in {} it is {}", other.path(), name, b->shape,
              first.path(), a.shape);
    if (is_averaged(a)) {
      for (const auto& [model, tensor] : {std::pair(&first, &a), std::pair(&other, b)})
        require_float(model->path(), *tensor);
      continue;
    }
    // A vocabulary, or anything else of which there is no mean.
    require(b->dtype == a.dtype, "{}: tensor {} has the type {}, in {} it is {}", other.path(), name, name_of(b->dtype),
            first.path(), name_of(a.dtype));
    const auto [here, there] = std::ranges::mismatch(a.data, b->data);
    require(here == a.data.end() && there == b->data.end(),
            "{}: another {} than {} (tensor {} differs first at byte {})", other.path(),
            vocabulary ? "vocabulary" : "content", first.path(), name, here - a.data.begin());
  }
  for (const auto& b : other.file().tensors())
    require(is_training_state(b.name) || first.has(b.name), "{}: tensor {} is not in {}", other.path(),
            printable(b.name), first.path());
}

// sum += weight * x with the rounding errors gathered apart (Knuth, TAOCP 2, section 4.2.2, theorem B), so that the
// order of the files and cancellation leave no trace in the float32 result.
void accumulate(std::span<const float> x, double weight, double* sum, double* error) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double term = weight * x[i];
    const double total = sum[i] + term;
    const double rest = total - sum[i];
    error[i] += (sum[i] - (total - rest)) + (term - rest);
    sum[i] = total;
  }
}

class Averager {
 public:
  Averager(const std::vector<ModelFile>& models, std::vector<double> weights)
      : models_(models), weights_(std::move(weights)) {
    for (const double w : weights_) total_ += w;
  }

  void write(std::string_view name, SafetensorsWriter& writer) {
    const int64_t n = models_.front().file().find(name)->shape.elements();
    for (int64_t begin = 0; begin < n; begin += kChunk) {
      const auto count = static_cast<size_t>(std::min(kChunk, n - begin));
      for (size_t m = 0; m < models_.size(); ++m) {
        const auto& tensor = *models_[m].file().find(name);
        const size_t element = size_of(tensor.dtype);
        const auto part = tensor.data.subspan(static_cast<size_t>(begin) * element, count * element);
        require_finite(models_[m].path(), tensor, part, begin);
        const auto values = std::span(values_).first(count);
        convert_to_float(tensor.dtype, part, values);
        if (m == 0) {  // not 0 + x: that would lose the sign of -0
          std::fill_n(error_.begin(), count, 0.0);
          for (size_t i = 0; i < count; ++i) sum_[i] = weights_[m] * values[i];
        } else {
          accumulate(values, weights_[m], sum_.data(), error_.data());
        }
      }
      for (size_t i = 0; i < count; ++i) {
        const double sum = error_[i] == 0 ? sum_[i] : sum_[i] + error_[i];
        values_[i] = static_cast<float>(sum / total_);
      }
      writer.write(name, std::as_bytes(std::span(values_).first(count)));
    }
    for (const auto& model : models_) model.file().release(model.file().find(name)->data);
  }

 private:
  static constexpr int64_t kChunk = 1 << 14;  // sums and errors stay in the cache

  const std::vector<ModelFile>& models_;
  std::vector<double> weights_;
  double total_ = 0;
  std::vector<float> values_ = std::vector<float>(kChunk);
  std::vector<double> sum_ = std::vector<double>(kChunk), error_ = std::vector<double>(kChunk);
};

// Scaled by a power of two, which is exact, so that the largest lies in [0.5, 1) and no product overflows.
std::vector<double> scaled_weights(const std::vector<double>& weights, size_t files) {
  if (weights.empty()) return std::vector<double>(files, 1.0);
  require(weights.size() == files, "{} weights for {} files: one each is needed", weights.size(), files);
  for (const double w : weights) require(std::isfinite(w) && w > 0, "the weight {} is not a positive number", w);
  int exponent = 0;
  std::frexp(std::ranges::max(weights), &exponent);
  std::vector<double> scaled;
  for (const double w : weights) scaled.push_back(std::ldexp(w, -exponent));
  return scaled;
}

std::string sources(const std::vector<std::string>& files, const std::vector<double>& weights) {
  double total = 0;
  for (const double w : weights) total += w;
  json list = json::array();
  for (size_t i = 0; i < files.size(); ++i) list.push_back({{"file", files[i]}, {"weight", weights[i] / total}});
  return json_text(list);
}

}  // namespace

void average_models(const std::vector<std::string>& files, const std::vector<double>& weights,
                    const std::string& output) {
  require(!files.empty(), "no models to average");
  const auto scaled = scaled_weights(weights, files.size());
  std::vector<ModelFile> models;
  for (const auto& file : files) models.push_back(ModelFile::open_served(file));
  const ModelFile& first = models.front();
  for (const auto& other : models) {  // the first as well: its types
    require_same_config(first, other);
    require_same_tensors(first, other);
  }

  SafetensorsWriter writer(output);
  for (const auto& [key, value] : first.file().metadata())
    if (key != kProgressKey && key != kHashKey) writer.set_metadata(key, value);
  writer.set_metadata(std::string(kAverageKey), sources(files, scaled));

  const auto written_type = [](const TensorInfo& t) { return is_averaged(t) ? DType::kF32 : t.dtype; };
  std::vector<const TensorInfo*> tensors;
  for (const auto& tensor : first.file().tensors())
    if (!is_training_state(tensor.name)) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [&](const TensorInfo* t) { return size_of(written_type(*t)); });
  for (const auto* t : tensors) writer.declare(t->name, written_type(*t), t->shape);
  Averager averager(models, scaled);
  for (const auto* t : tensors) {
    if (is_averaged(*t))
      averager.write(t->name, writer);
    else
      writer.write(t->name, t->data);
  }
  for (const ModelFile& model : models) model.file().require_unchanged();
  writer.commit();
}

}  // namespace nmt
