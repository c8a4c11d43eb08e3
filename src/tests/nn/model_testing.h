#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/philox.h"
#include "graph/runtime.h"
#include "nn/transformer.h"
#include "ops/fusion.h"
#include "tests/catch.h"

// Small models with random parameters and random batches, and what comes out of them.
namespace nmt::testing {

inline ModelConfig small_config() {
  ModelConfig c;
  c.dim_emb = 24;
  c.dim_ffn = 40;
  c.heads = 3;
  c.dim_key = 7;
  c.dim_value = 5;
  c.enc_depth = c.dec_depth = 2;
  c.dropout = 0;
  c.source_vocabulary = c.target_vocabulary = 31;
  c.eos = c.source_eos = 2;
  return c;
}

// Larger than a model's start, so that attention and predictions are far from uniform; a function of names and seed.
inline void randomise(Parameters& parameters, uint64_t seed) {
  for (const auto& e : parameters.entries()) {
    Random random(seed, hash64(e.name));
    const double width = e.shape.rank() == 2 ? std::sqrt(3.0 / static_cast<double>(e.shape[1])) : 0.3;
    for (float& value : parameters.values(e))
      value = static_cast<float>((2 * random.uniform() - 1) * width + (e.name.ends_with("norm.weight") ? 1 : 0));
  }
}

struct TestModel {
  Transformer transformer;
  Parameters parameters;

  explicit TestModel(const ModelConfig& config, uint64_t seed = 1,
                     const std::shared_ptr<Backend>& backend = host_backend())
      : transformer(config) {
    transformer.declare(parameters);
    parameters.allocate(true, backend);
    randomise(parameters, seed);
    parameters.value_buffer().upload();
  }
};

// Sentences as lists of ids that end with </s>.
using Sentences = std::vector<std::vector<int32_t>>;

inline Sentences random_sentences(const std::vector<int>& lengths, int vocabulary, int eos, uint64_t seed) {
  Random random(seed, 5);
  Sentences sentences;
  for (const int length : lengths) {
    auto& sentence = sentences.emplace_back();
    for (int i = 0; i + 1 < length; ++i)
      sentence.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary))));
    sentence.push_back(eos);
  }
  return sentences;
}

inline std::vector<int32_t> begins(const Sentences& sentences) {
  std::vector<int32_t> begin{0};
  for (const auto& sentence : sentences) begin.push_back(begin.back() + static_cast<int32_t>(sentence.size()));
  return begin;
}

inline PairInput pack(const Sentences& source, const Sentences& target) {
  const auto all = [](const Sentences& sentences) {
    std::vector<int32_t> ids;
    for (const auto& sentence : sentences) ids.insert(ids.end(), sentence.begin(), sentence.end());
    return ids;
  };
  return {all(source), begins(source), all(target), begins(target)};
}

struct RunOptions {
  bool fusion = true, train = true;
  int threads = 1;
  DType compute = DType::kF32;
  uint32_t step = 3;
  double label_smoothing = 0.1;
  std::shared_ptr<Backend> backend = host_backend();  // the model's
};

struct Result {
  float loss = 0;
  std::vector<float> token_losses;  // -log p of each target token
  std::map<std::string, std::vector<float>> gradients;
  std::vector<Leaves::Site> sites;
};

// The sum of losses over the tokens of the batch, and its gradients.
inline Result run(TestModel& model, const PairInput& batch, const RunOptions& options = {}) {
  Runtime runtime(options.threads, options.compute, false, options.backend);
  runtime.seed = 11;
  runtime.step = options.step;
  Graph graph(runtime, options.fusion ? fusion_rules() : std::span<const FusionRule>());
  Leaves leaves(graph, model.parameters, options.train);
  model.parameters.gradient_buffer().zero();
  const float weight = 1;
  const Expr loss = model.transformer.loss(leaves, batch, &weight, options.label_smoothing);
  if (options.train) graph.backward(loss);
  graph.run({loss, loss.output(1)});
  Result result;
  result.loss = graph.scalar(loss);
  const float* losses = graph.data<float>(loss.output(1));
  result.token_losses.assign(losses, losses + batch.target.tokens());
  model.parameters.gradient_buffer().download();
  for (const auto& e : model.parameters.entries()) {
    const auto g = model.parameters.gradients(e);
    result.gradients[e.name].assign(g.begin(), g.end());
  }
  result.sites = leaves.sites();
  return result;
}

// The largest difference over the largest value of b.
inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst == 0 ? 0 : worst / largest;
}

inline void check_close(const Result& a, const Result& b, double tolerance) {
  CHECK(std::fabs(a.loss - b.loss) <= tolerance * std::fabs(b.loss));
  CHECK(difference(a.token_losses, b.token_losses) <= tolerance);
  for (const auto& [name, gradient] : b.gradients) {
    INFO(name);
    CHECK(difference(a.gradients.at(name), gradient) <= tolerance);
  }
}

inline void check_same_bits(const Result& a, const Result& b) {
  CHECK(a.loss == b.loss);
  CHECK(a.token_losses == b.token_losses);
  CHECK(a.gradients == b.gradients);
}

}  // namespace nmt::testing
