#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/model_config.h"
#include "nn/packed_text.h"
#include "nn/parameters.h"
#include "ops/attention.h"

namespace nmt {

// The Transformer of "Attention Is All You Need", section 3, over packed sentences; each function appends to a graph.
class Transformer {
 public:
  explicit Transformer(const ModelConfig& config) : config_(config) {}

  const ModelConfig& config() const { return config_; }
  // Declares all parameters of the configuration.
  void declare(Parameters& parameters) const;

  // Glorot uniform matrices (Glorot and Bengio 2010), embeddings normal with deviation d_model^-0.5, biases zero,
  // scales one. depth_scaling: the matrices that end a sub-layer are multiplied by (encoder + decoder layers)^-0.5.
  void initialise(Parameters& parameters, uint64_t seed, bool depth_scaling) const;

  // Encoder: [source tokens, d_model].
  Expr encode(Leaves& p, const PackedText& source, const std::vector<int64_t>& weights) const;

  // Loss and -log p of each target token; see cross_entropy. weight: one float that lives until the run.
  // Leaves::find of "encoder.I.self_attention.weights", "decoder.I.self_attention.weights" or
  // "decoder.I.cross_attention.weights" then gives the attention weights of layer I, [heads, queries, keys] of all
  // sentences, 0 between two of them.
  Expr loss(Leaves& p, const PairInput& batch, const float* weight, double label_smoothing) const;
  // The same without smoothing and weight: the mean cross-entropy.
  Expr loss(Leaves& p, const PairInput& batch) const;

  // Decoding, one step for several rows: hypotheses of one sentence stand together.
  struct LayerCache {
    void* past[2];    // [capacity, cache_widths()[i]] in the compute dtype
    void* source[2];  // of the encoder's output: [source tokens, source_widths()[i]]
  };
  struct StepRows {       // int32 [rows]
    Expr ids, positions;  // the last token (-1 at the start) and its position
    Expr slot;            // cache row that this step writes
    Expr entry;           // [rows, stride] cache rows to read
    Expr length;          // how many of them
    int64_t longest;      // positions are less
  };
  struct Step {
    StepRows rows;
    std::span<const int32_t> row_begin;     // rows of sentence s
    std::span<const int32_t> source_begin;  // source tokens of sentence s
    std::span<const int64_t> weight_begin;  // weight_begins(row_begin, source_begin)
    std::span<const LayerCache> caches;     // by decoder layer
    int64_t capacity, source_tokens;
  };
  // Rows that the host knows.
  static StepRows step_rows(Graph& graph, std::span<const int32_t> ids, std::span<const int32_t> positions,
                            std::span<const int32_t> slot, std::span<const int32_t> entry,
                            std::span<const int32_t> length);
  // What a decoder layer keeps of each past position: keys and values of all heads; or what a convolution reads, or the
  // state of a recurrence, and nothing.
  std::array<int, 2> cache_widths() const;
  // Keys and values of all heads.
  std::array<int, 2> source_widths() const { return {config_.keys(), config_.values()}; }
  // The decoder's output [rows, d_model].
  Expr step(Leaves& p, const Step& step) const;
  // For each decoder layer: keys and values of the encoder's output side by side, [source tokens, h * (d_k + d_v)].
  std::vector<Expr> source_keys_values(Leaves& p, Expr encoded) const;
  // [vocabulary, d_model]: its product with the decoder's output gives the logits (section 3.4).
  Expr output_matrix(Leaves& p) const;
  const char* output_name() const;  // of that parameter

 private:
  Expr embed(Leaves& p, bool source, Expr ids, Expr positions, int64_t longest) const;
  Expr embed(Leaves& p, bool source, const PackedText& text) const;
  Expr encodings(Leaves& p, bool source, int64_t longest) const;
  const char* table_name(bool source) const;      // of the parameter that embeds this side
  const char* positions_name(bool source) const;  // and of that of its positions, where they are learned
  Expr attend(Leaves& p, const std::string& name, Expr q, Expr k, Expr v, const Segments& segments, KeyMask mask) const;
  // What products of queries and keys are multiplied with: 0: the usual (see attention).
  float attention_factor() const { return config_.attention == "dot" ? 1.f : 0.f; }
  Expr queries_keys_values(Leaves& p, const std::string& name, Expr x) const;
  Expr keys_values(Leaves& p, const std::string& name, Expr x) const;
  Expr self_attention(Leaves& p, const std::string& name, Expr x, const Segments& segments, bool causal) const;
  Expr convolution(Leaves& p, const std::string& name, Expr around) const;
  Expr recurrent_input(Leaves& p, const std::string& name, Expr x) const;
  Expr along_positions(Leaves& p, bool source, int i, const std::string& name, Expr x, const Segments& segments) const;
  std::string along_positions_name(bool source, int i) const;  // of that sub-layer
  struct KeysValues {
    Expr keys, values;
  };
  Expr cross_attention(Leaves& p, const std::string& name, Expr x, const KeysValues& source,
                       const Segments& segments) const;
  Expr feed_forward(Leaves& p, const std::string& name, Expr x) const;
  template <class Sublayer>
  Expr sublayer(Leaves& p, const std::string& name, Expr x, Sublayer f) const;
  template <class Source, class AlongPositions>
  Expr decode(Leaves& p, Expr y, Source source, const Segments& across, AlongPositions along_positions) const;
  Expr final_norm(Leaves& p, const std::string& name, Expr x) const;

  ModelConfig config_;
};

// PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(same) (section 3.5); [rows, d_model]. Made once
// and kept, as graphs read it where it is.
const std::vector<float>& sinusoids(int64_t rows, int d_model);

}  // namespace nmt
