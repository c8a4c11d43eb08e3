#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/line_reader.h"
#include "base/philox.h"
#include "io/model_file.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "train/trainer.h"

namespace nmt::testing {

using Tensors = std::map<std::string, std::vector<float>>;

// All float tensors of a model or checkpoint.
inline Tensors read_tensors(const std::string& path) {
  const ModelFile file = ModelFile::open(path);
  Tensors tensors;
  for (const TensorInfo& t : file.file().tensors()) {
    if (t.dtype != DType::kF32) continue;
    auto& values = tensors[t.name];
    values.resize(static_cast<size_t>(t.shape.elements()));
    file.read(t.name, t.shape, values);
  }
  return tensors;
}

inline Tensors with_prefix(const Tensors& tensors, const std::string& prefix) {
  Tensors found;
  for (const auto& [name, values] : tensors)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = values;
  return found;
}

inline nlohmann::json read_state(const std::string& path) {
  return parse_json(*ModelFile::open(path).metadata(kProgressKey));
}

// The largest difference over the largest value of b, the worst of all tensors.
inline double difference(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double worst = 0;
  for (const auto& [name, values] : b) {
    const auto& others = a.at(name);
    if (others.size() != values.size()) return INFINITY;
    double most = 0, largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::fmax(most, std::fabs(static_cast<double>(others[i]) - values[i]));
      largest = std::fmax(largest, std::fabs(static_cast<double>(values[i])));
    }
    if (most > 0) worst = std::fmax(worst, most / largest);
  }
  return worst;
}

// The lines of a kind in a training's JSON log.
inline std::vector<nlohmann::json> logged(const std::string& json_log, const std::string& kind) {
  std::vector<nlohmann::json> found;
  for (const auto& line : read_lines(json_log))
    if (auto json = parse_json(line); json.at("kind") == kind) found.push_back(std::move(json));
  return found;
}

// A folder with 60 random pairs, their vocabulary, and options of a small training on them.
class TrainingFolder {
 public:
  static constexpr int kPairs = 60, kWords = 30;

  TrainingFolder() {
    std::ofstream vocabulary(folder_ / "words");
    vocabulary << "#nmt-words 1 words=" << kWords + 2 << " merges=0 join=0 lowercase=0 attached=1\n<unk>\n</s>\n";
    for (int i = 0; i < kWords; ++i) vocabulary << "w" << i << "\t1\n";
    Random random(3);
    for (const char* side : {"source", "target"}) {
      std::ofstream file(folder_ / side);
      for (int i = 0; i < kPairs; ++i) {
        for (uint64_t length = 1 + random.below(12); length > 0; --length)
          file << "w" << random.below(kWords) << (length > 1 ? " " : "\n");
      }
    }
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  TrainOptions options() const {
    TrainOptions o;
    o.model_path = folder_ / "m.safetensors";
    o.vocabs = {folder_ / "words"};
    o.data.train_sets = {folder_ / "source", folder_ / "target"};
    o.data.mini_batch = 4;
    o.model.dim_emb = 32;
    o.model.dim_ffn = 48;
    o.model.heads = 4;
    o.model.enc_depth = o.model.dec_depth = 1;
    o.lr_warmup = 10;
    o.precision = "f32";
    o.devices = {"cpu"};
    o.threads = 1;
    o.quiet = true;
    return o;
  }

  // A whole run from its start; returns its checkpoint's tensors. The files stay until the next fresh run.
  Tensors fresh(TrainOptions o, const std::string& after) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("m.")) std::filesystem::remove(entry.path());
    return further(std::move(o), after);
  }
  // Goes on from the checkpoint.
  Tensors further(TrainOptions o, const std::string& after) const {
    o.after = after;
    Trainer(o, "").run();
    return read_tensors(state_path());
  }

  // Writes the checkpoint again, changed.
  void change(const std::function<void(nlohmann::json& state, Tensors& tensors)>& by) const {
    nlohmann::json changed_state = state();
    Tensors tensors = read_tensors(state_path());
    by(changed_state, tensors);
    {
      const ModelFile file = ModelFile::open(state_path());
      ModelContent content;
      for (const auto& [key, value] : file.file().metadata())
        if (key != kHashKey) content.metadata[key] = value;
      content.metadata[std::string(kProgressKey)] = json_text(changed_state);
      content.source_vocabulary = content.target_vocabulary = file.source_vocabulary();
      for (const TensorInfo& t : file.file().tensors())
        if (t.dtype == DType::kF32) content.tensors.push_back({t.name, t.shape, tensors.at(t.name)});
      write_model(folder_ / "changed", content);
    }
    std::filesystem::rename(folder_ / "changed", state_path());
  }

  std::string state_path() const { return folder_ / "m.state"; }
  nlohmann::json state() const { return read_state(state_path()); }

 private:
  TempFolder folder_;
};

}  // namespace nmt::testing
