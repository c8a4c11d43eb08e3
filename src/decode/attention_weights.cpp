#include "decode/attention_weights.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "ops/fusion.h"
#include "text/batch.h"

namespace nmt {
namespace {

// Tokens of a side that are packed together: weights between sentences are computed, too, and are all 0.
constexpr int64_t kTokens = 256;

// The weights of one kind by layer, [heads, queries, keys] of all sentences.
struct Layers {
  std::vector<Expr> weights;
  std::span<const int32_t> query_begin, key_begin;

  // Those of sentence s.
  AttentionWeights of(size_t s) const {
    AttentionWeights part;
    if (weights.empty()) return part;
    const Shape& shape = weights[0].shape();
    const int64_t first_query = query_begin[s], first_key = key_begin[s];
    part.layers = std::ssize(weights);
    part.heads = shape[0];
    part.queries = query_begin[s + 1] - first_query;
    part.keys = key_begin[s + 1] - first_key;
    part.values.reserve(static_cast<size_t>(part.layers * part.heads * part.queries * part.keys));
    for (const Expr& layer : weights) {
      const auto* data = layer.graph().data<float>(layer);
      for (int64_t h = 0; h < part.heads; ++h)
        for (int64_t q = 0; q < part.queries; ++q) {
          const float* row = data + (h * shape[1] + first_query + q) * shape[2] + first_key;
          part.values.insert(part.values.end(), row, row + part.keys);
        }
    }
    if (!std::ranges::all_of(part.values, [](float x) { return std::isfinite(x); }))
      fail("the model's attention weights are not numbers");
    return part;
  }
};

void read_batch(const Scorer& scorer, Runtime& runtime, std::span<const IdPair> pairs, bool self,
                const AttentionDone& done) {
  const PairInput input = pair_input(pairs);
  const Transformer& transformer = *scorer.transformer;
  Graph graph(runtime, fusion_rules());
  Leaves leaves(graph, *scorer.parameters, false);
  transformer.loss(leaves, input);
  std::vector<Expr> outputs;
  const auto layers = [&](bool wanted, const char* side, const char* kind, int depth, const PackedText& queries,
                          const PackedText& keys) {
    Layers all{{}, queries.begin, keys.begin};
    for (int i = 0; wanted && i < depth; ++i)
      if (const Expr weights = leaves.find(fmt::format("{}.{}.{}_attention.weights", side, i, kind)))
        all.weights.push_back(weights);
    outputs.insert(outputs.end(), all.weights.begin(), all.weights.end());
    return all;
  };
  const int enc_depth = transformer.config().enc_depth, dec_depth = transformer.config().dec_depth;
  const auto encoder = layers(self, "encoder", "self", enc_depth, input.source, input.source);
  const auto decoder = layers(self, "decoder", "self", dec_depth, input.target, input.target);
  const auto cross = layers(true, "decoder", "cross", dec_depth, input.target, input.source);
  graph.run(outputs);
  for (size_t s = 0; s < pairs.size(); ++s) done(pairs[s], {encoder.of(s), decoder.of(s), cross.of(s)});
}

nlohmann::json pieces(const std::vector<int32_t>& ids, const Vocab& vocab) {
  auto list = nlohmann::json::array();
  for (const int32_t id : ids) list.push_back(vocab.piece(id));
  return list;
}

// [a,b,...], each item written by one(i).
template <class Write>
void write_list(std::string& text, int64_t count, Write one) {
  text += '[';
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    one(i);
  }
  text += ']';
}

// 0.25, 0 or 1, without zeros at the end.
void write_weight(std::string& text, float weight, int decimals, int64_t unit) {
  int64_t value = std::llround(static_cast<double>(weight) * static_cast<double>(unit));
  if (value == 0 || value == unit) {
    text += value == 0 ? '0' : '1';
    return;
  }
  for (; value % 10 == 0; value /= 10) --decimals;
  fmt::format_to(std::back_inserter(text), "0.{:0{}}", value, decimals);
}

void write_weights(std::string& text, const AttentionWeights& weights, bool causal, int decimals) {
  const auto unit = std::llround(std::pow(10, decimals));
  write_list(text, weights.layers, [&](int64_t layer) {
    write_list(text, weights.heads, [&](int64_t head) {
      write_list(text, weights.queries, [&](int64_t query) {
        const auto row = weights.row(layer, head, query);
        write_list(text, causal ? query + 1 : weights.keys,
                   [&](int64_t key) { write_weight(text, row[static_cast<size_t>(key)], decimals, unit); });
      });
    });
  });
}

}  // namespace

void read_attention(const Scorer& scorer, Runtime& runtime, std::span<const IdPair> pairs, bool self,
                    const AttentionDone& done) {
  std::vector<PairLength> lengths;  // without </s>
  for (const IdPair& pair : pairs)
    lengths.push_back(
        {static_cast<int32_t>(std::ssize(pair.source)) - 1, static_cast<int32_t>(std::ssize(pair.target)) - 1});
  std::vector<uint32_t> in_order(pairs.size());
  std::iota(in_order.begin(), in_order.end(), 0u);
  for (const auto& [begin, end] : cut_batches(lengths, in_order, {INT_MAX, kTokens, kTokens}))
    read_batch(scorer, runtime, pairs.subspan(begin, end - begin), self, done);
}

std::string attention_json(const IdPair& pair, const PairAttention& attention, const Vocab& source, const Vocab& target,
                           int decimals) {
  std::string text = fmt::format(R"({{"source":{},"target":{},"encoder":)", json_text(pieces(pair.source, source)),
                                 json_text(pieces(pair.target, target)));
  write_weights(text, attention.encoder, false, decimals);
  text += R"(,"decoder":)";
  write_weights(text, attention.decoder, true, decimals);
  text += R"(,"cross":)";
  write_weights(text, attention.cross, false, decimals);
  text += "}\n";
  return text;
}

}  // namespace nmt
