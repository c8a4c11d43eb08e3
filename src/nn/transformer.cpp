#include "nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/additive_attention.h"
#include "ops/convolution.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "ops/recurrence.h"

namespace nmt {
namespace {

Expr input(Graph& g, std::span<const int32_t> v) {
  return g.input({{static_cast<int64_t>(v.size())}, DType::kI32}, v.data());
}
Expr input(Graph& g, std::span<const int64_t> v) {
  return g.input({{static_cast<int64_t>(v.size())}, DType::kI64}, v.data());
}

std::string layer(const char* side, int i, const char* part) { return fmt::format("{}.{}.{}", side, i, part); }

}  // namespace

const std::vector<float>& sinusoids(int64_t rows, int d_model) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, int>, std::vector<float>> tables;
  const std::lock_guard lock(mutex);
  auto& table = tables[{rows, d_model}];
  if (!table.empty()) return table;
  table.resize(static_cast<size_t>(rows * d_model));
  for (int64_t pos = 0; pos < rows; ++pos)
    for (int c = 0; c < d_model; ++c) {
      const double angle = static_cast<double>(pos) / std::pow(10000.0, (c - c % 2) / static_cast<double>(d_model));
      table[static_cast<size_t>(pos * d_model + c)] =
          static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return table;
}

Expr Transformer::output_matrix(Leaves& p) const { return p[output_name()]; }

// A vector for each position (section 3.5): sinusoids, or learned ones.
Expr Transformer::encodings(Leaves& p, bool source, int64_t longest) const {
  if (config_.train_positions) return p[positions_name(source)];
  int64_t rows = 64;  // powers of two: few shapes, so that plans repeat
  while (rows < longest) rows *= 2;
  return p.graph().input({{rows, config_.dim_emb}, DType::kF32}, sinusoids(rows, config_.dim_emb).data());
}

Expr Transformer::embed(Leaves& p, bool source, Expr ids, Expr positions, int64_t longest) const {
  check(longest <= config_.longest(), "{} positions of {}", longest, config_.longest());
  const float rate = p.dropout_rate(config_.dropout, source ? "encoder.embed" : "decoder.embed");
  const auto factor = static_cast<float>(std::sqrt(config_.dim_emb));
  return nmt::embed(p[table_name(source)], ids, encodings(p, source, longest), positions, factor, rate);
}

Expr Transformer::embed(Leaves& p, bool source, const PackedText& text) const {
  return embed(p, source, input(p.graph(), text.ids), input(p.graph(), text.positions), text.longest());
}

// Each sub-layer with its residual connection, dropout and layer normalisation (sections 3.1 and 5.4).
template <class Sublayer>
Expr Transformer::sublayer(Leaves& p, const std::string& name, Expr x, Sublayer f) const {
  const auto norm = [&](Expr y) { return layer_norm(y, p[name + ".norm.weight"], p[name + ".norm.bias"]); };
  const auto residual = [&](Expr y) { return add(x, p.dropout(y, config_.dropout, name + ".residual")); };
  return config_.norm == "post" ? norm(residual(f(x))) : residual(f(norm(x)));
}

Expr Transformer::final_norm(Leaves& p, const std::string& name, Expr x) const {
  return config_.norm == "post" ? x : layer_norm(x, p[name + ".norm.weight"], p[name + ".norm.bias"]);
}

// The queries, keys and values of x (section 3.2.2) out of one product, [rows, h (2 d_k + d_v)].
Expr Transformer::queries_keys_values(Leaves& p, const std::string& name, Expr x) const {
  return linear(x, p.joined({name + ".query.weight", name + ".key.weight", name + ".value.weight"}));
}

// Keys and values alone.
Expr Transformer::keys_values(Leaves& p, const std::string& name, Expr x) const {
  return linear(x, p.joined({name + ".key.weight", name + ".value.weight"}));
}

// Each head's weighted sum of values (section 3.2.1), side by side. NAME.weights: the weights, of products alone.
Expr Transformer::attend(Leaves& p, const std::string& name, Expr q, Expr k, Expr v, const Segments& segments,
                         KeyMask mask) const {
  const std::string weights_name = name + ".weights";
  const float rate = p.dropout_rate(config_.dropout_attention, weights_name);
  if (config_.attention == "additive")
    return additive_attention(q, k, v, p[name + ".score.weight"], segments, mask, rate);
  const Expr weights = attention_weights(q, k, config_.heads, segments, mask, attention_factor());
  return weigh_values(p.named(weights_name, weights), v, segments, rate);
}

Expr Transformer::self_attention(Leaves& p, const std::string& name, Expr x, const Segments& segments,
                                 bool causal) const {
  const int keys = config_.keys(), values = config_.values();
  const Expr qkv = queries_keys_values(p, name, x);
  const Expr heads = attend(p, name, columns(qkv, 0, keys), columns(qkv, keys, keys), columns(qkv, 2 * keys, values),
                            segments, {causal, config_.attention_window});
  return linear(heads, p[name + ".output.weight"]);
}

Expr Transformer::cross_attention(Leaves& p, const std::string& name, Expr x, const KeysValues& source,
                                  const Segments& segments) const {
  const Expr heads = attend(p, name, linear(x, p[name + ".query.weight"]), source.keys, source.values, segments, {});
  return linear(heads, p[name + ".output.weight"]);
}

// `around`: the rows that each row's result depends on, side by side (see neighbours).
Expr Transformer::convolution(Leaves& p, const std::string& name, Expr around) const {
  return linear(around, p[name + ".weight"], p[name + ".bias"]);
}

Expr Transformer::recurrent_input(Leaves& p, const std::string& name, Expr x) const {
  return linear(x, p[name + ".input.weight"], p[name + ".input.bias"]);
}

// The sub-layer of layer i that lets the positions of a sentence know each other (section 4); in the decoder none knows
// of those behind it.
Expr Transformer::along_positions(Leaves& p, bool source, int i, const std::string& name, Expr x,
                                  const Segments& segments) const {
  const std::string& kind = source ? config_.encoder_layer : config_.decoder_layer;
  if (kind == "convolution") {
    const int before = source ? config_.kernel_width / 2 : config_.kernel_width - 1;
    return convolution(p, name, neighbours(x, segments.query_begin, -before, config_.kernel_width));
  }
  if (kind == "recurrent")
    return recurrence(recurrent_input(p, name, x), p[name + ".state.weight"], segments.query_begin,
                      source && i % 2 == 1);
  return self_attention(p, name, x, segments, !source);
}

// Section 3.3; SwiGLU: Shazeer 2020, "GLU Variants Improve Transformer".
Expr Transformer::feed_forward(Leaves& p, const std::string& name, Expr x) const {
  Expr inner = linear(x, p[name + ".inner.weight"], p[name + ".inner.bias"]);
  if (config_.activation == "relu") {
    inner = relu(inner);
  } else if (config_.activation == "gelu") {
    inner = gelu(inner);
  } else {
    check(config_.activation == "swiglu", "the activation {}", config_.activation);
    inner = multiply(silu(linear(x, p[name + ".gate.weight"], p[name + ".gate.bias"])), inner);
  }
  inner = p.dropout(inner, config_.dropout_ffn, name + ".inner");
  return linear(inner, p[name + ".outer.weight"], p[name + ".outer.bias"]);
}

Expr Transformer::encode(Leaves& p, const PackedText& source, const std::vector<int64_t>& weights) const {
  const Expr begin = input(p.graph(), source.begin);
  const Segments segments{begin, begin, input(p.graph(), weights)};
  Expr x = embed(p, true, source);
  for (int i = 0; i < config_.enc_depth; ++i) {
    const auto along = along_positions_name(true, i), feed = layer("encoder", i, "feed_forward");
    x = sublayer(p, along, x, [&](Expr y) { return along_positions(p, true, i, along, y, segments); });
    x = sublayer(p, feed, x, [&](Expr y) { return feed_forward(p, feed, y); });
  }
  return final_norm(p, "encoder", x);
}

// The decoder's layers (section 3.1) over embedded tokens; source(i): the source's keys and values for layer i,
// along_positions(i, name, y): its first sub-layer.
template <class Source, class AlongPositions>
Expr Transformer::decode(Leaves& p, Expr y, Source source, const Segments& across,
                         AlongPositions along_positions) const {
  for (int i = 0; i < config_.dec_depth; ++i) {
    const auto along = along_positions_name(false, i), cross = layer("decoder", i, "cross_attention"),
               feed = layer("decoder", i, "feed_forward");
    y = sublayer(p, along, y, [&](Expr x) { return along_positions(i, along, x); });
    y = sublayer(p, cross, y, [&](Expr x) { return cross_attention(p, cross, x, source(i), across); });
    y = sublayer(p, feed, y, [&](Expr x) { return feed_forward(p, feed, x); });
  }
  return final_norm(p, "decoder", y);
}

Expr Transformer::loss(Leaves& p, const PairInput& batch, const float* weight, double label_smoothing) const {
  Graph& g = p.graph();
  const auto sources = source_keys_values(p, encode(p, batch.source, batch.source_weights));
  const auto source = [&](int i) -> KeysValues {
    const auto [keys, values] = source_widths();
    const Expr both = sources[static_cast<size_t>(i)];
    return {columns(both, 0, keys), columns(both, keys, values)};
  };
  const Expr source_begin = input(g, batch.source.begin), target_begin = input(g, batch.target.begin);
  const Segments within{target_begin, target_begin, input(g, batch.target_weights)};
  const Segments across{target_begin, source_begin, input(g, batch.cross_weights)};
  const Expr y = decode(p, embed(p, false, batch.shifted), source, across, [&](int i, const std::string& name, Expr x) {
    return along_positions(p, false, i, name, x, within);
  });
  return cross_entropy(linear(y, output_matrix(p)), input(g, batch.target.ids), g.input({{1}, DType::kF32}, weight),
                       static_cast<float>(label_smoothing));
}

Expr Transformer::loss(Leaves& p, const PairInput& batch) const {
  static constexpr float kWeight = 1;
  return loss(p, batch, &kWeight, 0);
}

std::vector<Expr> Transformer::source_keys_values(Leaves& p, Expr encoded) const {
  std::vector<Expr> all;
  for (int i = 0; i < config_.dec_depth; ++i)
    all.push_back(keys_values(p, layer("decoder", i, "cross_attention"), encoded));
  return all;
}

std::array<int, 2> Transformer::cache_widths() const {
  if (config_.decoder_layer == "self-attention") return {config_.keys(), config_.values()};
  return {config_.dim_emb, 0};
}

Transformer::StepRows Transformer::step_rows(Graph& graph, std::span<const int32_t> ids,
                                             std::span<const int32_t> positions, std::span<const int32_t> slot,
                                             std::span<const int32_t> entry, std::span<const int32_t> length) {
  const auto rows = std::ssize(ids);
  const Shape entries = {rows, std::ssize(entry) / std::max<int64_t>(1, rows)};
  return {.ids = input(graph, ids),
          .positions = input(graph, positions),
          .slot = input(graph, slot),
          .entry = graph.input({entries, DType::kI32}, entry.data()),
          .length = input(graph, length),
          .longest = positions.empty() ? 0 : *std::ranges::max_element(positions) + 1};
}

Expr Transformer::step(Leaves& p, const Step& s) const {
  Graph& g = p.graph();
  const DType t = g.runtime().compute();
  const auto& [ids, positions, slot, entry, length, longest] = s.rows;
  const Segments across{input(g, s.row_begin), input(g, s.source_begin), input(g, s.weight_begin)};
  const auto source = [&](int i) -> KeysValues {
    const auto state = [&](size_t part) {
      return g.state({{s.source_tokens, source_widths()[part]}, t}, s.caches[static_cast<size_t>(i)].source[part]);
    };
    return {state(0), state(1)};
  };
  const Expr y = embed(p, false, ids, positions, longest);
  return decode(p, y, source, across, [&](int i, const std::string& name, Expr x) {
    const LayerCache& cache = s.caches[static_cast<size_t>(i)];
    const auto past = [&](size_t part) { return g.state({{s.capacity, cache_widths()[part]}, t}, cache.past[part]); };
    if (config_.decoder_layer == "convolution")
      return convolution(p, name, cached_neighbours(x, past(0), slot, entry, length, config_.kernel_width));
    if (config_.decoder_layer == "recurrent")
      return recurrent_step(recurrent_input(p, name, x), p[name + ".state.weight"], past(0), slot, entry, length);
    const Expr qkv = queries_keys_values(p, name, x);
    const Expr heads = config_.attention == "additive"
                           ? cached_additive_attention(qkv, past(0), past(1), p[name + ".score.weight"], slot, entry,
                                                       length, config_.attention_window)
                           : cached_attention(qkv, past(0), past(1), slot, entry, length, config_.heads,
                                              config_.attention_window, attention_factor());
    return linear(heads, p[name + ".output.weight"]);
  });
}

}  // namespace nmt
