#include "nn/transformer.h"

#include <cmath>

#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/normalize.h"

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

std::vector<float> sinusoids(int64_t rows, int d_model) {
  std::vector<float> table(static_cast<size_t>(rows * d_model));
  for (int64_t pos = 0; pos < rows; ++pos)
    for (int c = 0; c < d_model; ++c) {
      const double angle = static_cast<double>(pos) / std::pow(10000.0, (c - c % 2) / static_cast<double>(d_model));
      table[static_cast<size_t>(pos * d_model + c)] =
          static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return table;
}

Expr Transformer::output_matrix(Leaves& p) const {
  return p[config_.tied_embeddings ? table_name(false) : "output.weight"];
}

Expr Transformer::embed(Leaves& p, bool source, std::span<const int32_t> ids,
                        std::span<const int32_t> positions) const {
  int64_t rows = 64;  // powers of two: few shapes, so that plans repeat
  for (const int32_t position : positions)
    while (rows <= position) rows *= 2;
  auto& sines_of = sinusoids_[rows];
  if (sines_of.empty()) sines_of = sinusoids(rows, config_.dim_emb);
  Graph& g = p.graph();
  const Expr sines = g.input({{rows, config_.dim_emb}, DType::kF32}, sines_of.data());
  const float rate = p.dropout_rate(config_.dropout, source ? "encoder.embed" : "decoder.embed");
  const auto factor = static_cast<float>(std::sqrt(config_.dim_emb));
  return nmt::embed(p[table_name(source)], input(g, ids), sines, input(g, positions), factor, rate);
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

// Each head's weighted sum of values (section 3.2.1), side by side. NAME.weights: the weights.
Expr Transformer::attend(Leaves& p, const std::string& name, Expr q, Expr k, Expr v, const Segments& segments,
                         bool causal) const {
  const std::string weights_name = name + ".weights";
  const float rate = p.dropout_rate(config_.dropout_attention, weights_name);
  const Expr weights = attention_weights(q, k, config_.heads, segments, causal);
  return weigh_values(p.named(weights_name, weights), v, segments, rate);
}

Expr Transformer::self_attention(Leaves& p, const std::string& name, Expr x, const Segments& segments,
                                 bool causal) const {
  const int keys = config_.keys(), values = config_.values();
  const Expr qkv = queries_keys_values(p, name, x);
  const Expr heads = attend(p, name, columns(qkv, 0, keys), columns(qkv, keys, keys), columns(qkv, 2 * keys, values),
                            segments, causal);
  return linear(heads, p[name + ".output.weight"]);
}

Expr Transformer::cross_attention(Leaves& p, const std::string& name, Expr x, Expr source,
                                  const Segments& segments) const {
  const int keys = config_.keys(), values = config_.values();
  const Expr heads = attend(p, name, linear(x, p[name + ".query.weight"]), columns(source, 0, keys),
                            columns(source, keys, values), segments, false);
  return linear(heads, p[name + ".output.weight"]);
}

// Section 3.3; SwiGLU: Shazeer 2020, "GLU Variants Improve Transformer".
Expr Transformer::feed_forward(Leaves& p, const std::string& name, Expr x) const {
  Expr inner = linear(x, p[name + ".inner.weight"], p[name + ".inner.bias"]);
  if (config_.activation == "relu") inner = relu(inner);
  if (config_.activation == "gelu") inner = gelu(inner);
  if (config_.activation == "swiglu")
    inner = multiply(silu(linear(x, p[name + ".gate.weight"], p[name + ".gate.bias"])), inner);
  inner = p.dropout(inner, config_.dropout_ffn, name + ".inner");
  return linear(inner, p[name + ".outer.weight"], p[name + ".outer.bias"]);
}

Expr Transformer::encode(Leaves& p, const PackedText& source, const std::vector<int64_t>& weights) const {
  const Expr begin = input(p.graph(), source.begin);
  const Segments segments{begin, begin, input(p.graph(), weights)};
  Expr x = embed(p, true, source.ids, source.positions);
  for (int i = 0; i < config_.enc_depth; ++i) {
    const auto attend = layer("encoder", i, "self_attention"), feed = layer("encoder", i, "feed_forward");
    x = sublayer(p, attend, x, [&](Expr y) { return self_attention(p, attend, y, segments, false); });
    x = sublayer(p, feed, x, [&](Expr y) { return feed_forward(p, feed, y); });
  }
  return final_norm(p, "encoder", x);
}

// The decoder's layers (section 3.1) over embedded tokens; attend(i, name, y): self-attention of layer i.
template <class SelfAttention>
Expr Transformer::decode(Leaves& p, Expr y, std::span<const Expr> sources, const Segments& across,
                         SelfAttention attend) const {
  for (int i = 0; i < config_.dec_depth; ++i) {
    const auto self = layer("decoder", i, "self_attention"), cross = layer("decoder", i, "cross_attention"),
               feed = layer("decoder", i, "feed_forward");
    y = sublayer(p, self, y, [&](Expr x) { return attend(i, self, x); });
    y = sublayer(p, cross, y,
                 [&](Expr x) { return cross_attention(p, cross, x, sources[static_cast<size_t>(i)], across); });
    y = sublayer(p, feed, y, [&](Expr x) { return feed_forward(p, feed, x); });
  }
  return final_norm(p, "decoder", y);
}

Expr Transformer::loss(Leaves& p, const PairInput& batch, const float* weight, double label_smoothing) const {
  Graph& g = p.graph();
  const auto sources = source_keys_values(p, encode(p, batch.source, batch.source_weights));
  const Expr source_begin = input(g, batch.source.begin), target_begin = input(g, batch.target.begin);
  const Segments within{target_begin, target_begin, input(g, batch.target_weights)};
  const Segments across{target_begin, source_begin, input(g, batch.cross_weights)};
  const Expr y = decode(p, embed(p, false, batch.shifted.ids, batch.shifted.positions), sources, across,
                        [&](int, const std::string& name, Expr x) { return self_attention(p, name, x, within, true); });
  return cross_entropy(linear(y, output_matrix(p)), input(g, batch.target.ids), g.input({{1}, DType::kF32}, weight),
                       static_cast<float>(label_smoothing));
}

std::vector<Expr> Transformer::source_keys_values(Leaves& p, Expr encoded) const {
  std::vector<Expr> all;
  for (int i = 0; i < config_.dec_depth; ++i)
    all.push_back(keys_values(p, layer("decoder", i, "cross_attention"), encoded));
  return all;
}

Expr Transformer::step(Leaves& p, const Step& s) const {
  Graph& g = p.graph();
  const DType t = g.runtime().compute();
  const auto rows = static_cast<int64_t>(s.ids.size());
  const Expr slot = input(g, s.slot), length = input(g, s.length);
  const Expr entry =
      g.input({{rows, static_cast<int64_t>(s.entry.size()) / std::max<int64_t>(1, rows)}, DType::kI32}, s.entry.data());
  const Segments across{input(g, s.row_begin), input(g, s.source_begin), input(g, s.weight_begin)};
  std::vector<Expr> sources;
  for (const LayerCache& cache : s.caches)
    sources.push_back(g.state({{s.source_tokens, config_.keys() + config_.values()}, t}, cache.source));
  return decode(p, embed(p, false, s.ids, s.positions), sources, across, [&](int i, const std::string& name, Expr x) {
    const LayerCache& cache = s.caches[static_cast<size_t>(i)];
    const Expr keys = g.state({{s.capacity, config_.keys()}, t}, cache.keys);
    const Expr values = g.state({{s.capacity, config_.values()}, t}, cache.values);
    const Expr heads =
        cached_attention(queries_keys_values(p, name, x), keys, values, slot, entry, length, config_.heads);
    return linear(heads, p[name + ".output.weight"]);
  });
}

}  // namespace nmt
