// What one batch gives, as files that contrib/reference compares with: random models, losses, gradients and the dropout
// masks that were drawn. Everything is in token ids; a pair is a line `source ids <tab> target ids`, without </s>.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/line_reader.h"
#include "base/philox.h"
#include "config/app.h"
#include "graph/runtime.h"
#include "io/safetensors.h"
#include "nn/model.h"
#include "ops/fusion.h"

namespace nmt {
namespace {

struct RandomOptions {
  ModelConfig config;
  std::string output;
  uint64_t seed = 1;
  double spread = 1;
};

struct BatchOptions {
  std::string model, pairs, output, masks;
  double label_smoothing = 0;
  uint64_t seed = 1;
  int step = 1, threads = 1;
  bool fusion = true;
};

struct Sentences {
  std::vector<int32_t> ids, begin{0};

  void add(std::string_view text, int eos, const std::string& where) {
    const char *at = text.data(), *end = text.data() + text.size();
    while (at != end) {
      if (*at == ' ') {
        ++at;
        continue;
      }
      int32_t id = 0;
      const auto [next, failed] = std::from_chars(at, end, id);
      require(failed == std::errc() && id >= 0, "{}: token ids must be whole numbers", where);
      ids.push_back(id);
      at = next;
    }
    ids.push_back(eos);
    begin.push_back(static_cast<int32_t>(ids.size()));
  }
};

PairInput read_pairs(const std::string& path, const ModelConfig& config) {
  Sentences source, target;
  LineReader lines(path);
  for (std::string line; lines.next(line);) {
    const auto where = fmt::format("{}:{}", path, lines.line_number());
    const auto tab = line.find('\t');
    require(tab != std::string::npos, "{}: needs source ids, one tab, target ids", where);
    source.add(std::string_view(line).substr(0, tab), config.source_eos, where);
    target.add(std::string_view(line).substr(tab + 1), config.eos, where);
  }
  require(target.begin.size() > 1, "{}: no sentence pairs", path);
  PairInput pairs(source.ids, source.begin, target.ids, target.begin);
  require(std::max(pairs.source.longest(), pairs.target.longest()) <= config.longest(),
          "{}: a sentence is longer than the model's {} positions", path, config.longest());
  return pairs;
}

// Larger than a trained model's start, so that attention and predictions are far from uniform, and nothing is zero.
void write_random_model(const RandomOptions& o) {
  o.config.validate();
  Model model(o.config);
  model.parameters.allocate(false);
  for (const auto& e : model.parameters.entries()) {
    Random random(o.seed, hash64(e.name));
    const bool matrix = e.shape.rank() == 2;
    const double width = matrix ? o.spread * std::sqrt(3.0 / static_cast<double>(e.shape[1])) : 0.3;
    for (float& value : model.parameters.values(e))
      value = static_cast<float>((2 * random.uniform() - 1) * width + (e.name.ends_with("norm.weight") ? 1 : 0));
  }
  model.save(o.output, model.parameters.values());
}

// The shape of the mask that a site draws.
Shape mask_shape(const std::string& name, const ModelConfig& config, const PairInput& batch) {
  const int64_t tokens = name.starts_with("encoder") ? batch.source.tokens() : batch.target.tokens();
  if (name.ends_with(".inner")) return {tokens, config.dim_ffn};
  if (!name.ends_with(".weights")) return {tokens, config.dim_emb};
  const auto& weights = name.starts_with("encoder")                         ? batch.source_weights
                        : name.find("cross_attention") != std::string::npos ? batch.cross_weights
                                                                            : batch.target_weights;
  return {config.heads, weights.back()};
}

void write_masks(const BatchOptions& o, const Runtime& runtime, const Leaves& leaves, const ModelConfig& config,
                 const PairInput& batch) {
  SafetensorsWriter file(o.masks);
  for (const auto& site : leaves.sites()) file.declare(site.name, DType::kU8, mask_shape(site.name, config, batch));
  for (const auto& site : leaves.sites()) {
    std::vector<uint8_t> mask(static_cast<size_t>(mask_shape(site.name, config, batch).elements()));
    cpu::dropout_mask({site.rate, site.number, runtime.step, runtime.seed}, 0, static_cast<int64_t>(mask.size()),
                      mask.data());
    file.write(site.name, std::as_bytes(std::span(mask)));
  }
  file.commit();
}

void write_gradients(const BatchOptions& o) {
  const auto model = Model::load(o.model);
  auto& parameters = model->parameters;
  const std::vector<float> values(parameters.values().begin(), parameters.values().end());
  parameters.allocate(true);
  std::ranges::copy(values, parameters.values().begin());
  const auto& config = model->transformer.config();
  const PairInput batch = read_pairs(o.pairs, config);
  const auto weight = static_cast<float>(1.0 / static_cast<double>(batch.target.tokens()));  // the mean over tokens

  Runtime runtime(o.threads);
  runtime.seed = o.seed;
  runtime.step = static_cast<uint32_t>(o.step);
  Graph graph(runtime, o.fusion ? fusion_rules() : std::span<const FusionRule>());
  Leaves leaves(graph, parameters, true);
  const Expr loss = model->transformer.loss(leaves, batch, &weight, o.label_smoothing);
  graph.backward(loss);
  graph.run({loss});
  fmt::print("{:.17g}\n", graph.scalar(loss));

  SafetensorsWriter file(o.output);
  for (const auto& e : parameters.entries()) file.declare(e.name, DType::kF32, e.shape);
  for (const auto& e : parameters.entries())
    file.write(e.name, std::as_bytes(std::span<const float>(parameters.gradients(e))));
  file.commit();
  if (!o.masks.empty()) write_masks(o, runtime, leaves, config, batch);
}

// log P(target, </s> given source), one line a pair.
void print_log_probabilities(const BatchOptions& o) {
  const auto model = Model::load(o.model);
  const PairInput batch = read_pairs(o.pairs, model->transformer.config());
  Runtime runtime(o.threads);
  Graph graph(runtime, o.fusion ? fusion_rules() : std::span<const FusionRule>());
  Leaves leaves(graph, model->parameters, false);
  const Expr losses = model->transformer.loss(leaves, batch).output(1);
  graph.run({losses});
  const auto& begin = batch.target.begin;
  for (size_t s = 0; s + 1 < begin.size(); ++s) {
    double sum = 0;
    for (int32_t i = begin[s]; i < begin[s + 1]; ++i) sum -= graph.data<float>(losses)[i];
    fmt::print("{:.17g}\n", sum);
  }
}

void declare_batch(Options& options, BatchOptions& o) {
  options.add("model", o.model, "Model file").required();
  options.add("pairs", o.pairs, "Sentence pairs, token ids").required();
  options.add("threads", o.threads, "Threads").range(1, 256);
  options.add("fusion", o.fusion, "Apply the fusion rules");
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) {
  using namespace nmt;
  App app("nmt-test-gradients", "Losses, gradients and dropout masks of one batch, for comparison");
  RandomOptions random;
  BatchOptions batch;

  App& make = app.command("random", "Write a random model");
  random.config.declare(make.options());
  make.options().add("source-vocab-size", random.config.source_vocabulary, "Source entries").required();
  make.options().add("target-vocab-size", random.config.target_vocabulary, "Target entries").required();
  make.options().add("eos-id", random.config.eos, "Id of </s> on both sides").required();
  make.options().add("seed", random.seed, "Seed");
  make.options().add("spread", random.spread, "Factor of all matrices");
  make.options().add("output", random.output, "Model file to write").required();
  make.run([&] {
    random.config.source_eos = random.config.eos;
    write_random_model(random);
  });

  App& gradients = app.command("gradients", "Print the mean loss, write gradients and dropout masks");
  declare_batch(gradients.options(), batch);
  gradients.options().add("output", batch.output, "Gradients to write").required();
  gradients.options().add("masks", batch.masks, "Dropout masks to write");
  gradients.options().add("label-smoothing", batch.label_smoothing, "Label smoothing").range(0, 0.99);
  gradients.options().add("seed", batch.seed, "Seed of dropout");
  gradients.options().add("step", batch.step, "Step of dropout").range(0, 1e9);
  gradients.run([&] { write_gradients(batch); });

  App& log_probabilities = app.command("logprob", "Print log P of each pair");
  declare_batch(log_probabilities.options(), batch);
  log_probabilities.run([&] { print_log_probabilities(batch); });
  return app.main(argc, argv);
}
