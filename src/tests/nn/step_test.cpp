// Decoding step by step against the training graph.
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "tests/compute_types.h"
#include "tests/nn/model_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

std::vector<std::byte> copied(Graph& graph, Expr value) {
  const auto* data = graph.data<std::byte>(value);
  return {data, data + value.spec().bytes()};
}

// -log p of every token of the targets, teacher-forced through Transformer::step: `beam` hypotheses of each source (the
// targets of source s are s * beam ..), of different lengths, so that rows leave on the way.
std::vector<float> stepwise(TestModel& model, const Sentences& sources, const Sentences& targets, int beam,
                            DType compute, bool fusion) {
  const ModelConfig& c = model.transformer.config();
  Runtime runtime(2, compute);
  const auto rules = fusion ? fusion_rules() : std::span<const FusionRule>();
  const PairInput batch = pack(sources, sources);
  std::vector<std::vector<std::byte>> source_keys, source_values;
  {
    Graph graph(runtime, rules);
    Leaves leaves(graph, model.parameters, false);
    const auto [key, value] = model.transformer.source_widths();
    for (const Expr both : model.transformer.source_keys_values(
             leaves, model.transformer.encode(leaves, batch.source, batch.source_weights))) {
      const Expr k = columns(both, 0, key), v = columns(both, key, value);
      graph.run({k, v});
      source_keys.push_back(copied(graph, k));
      source_values.push_back(copied(graph, v));
    }
  }

  size_t longest = 0;
  for (const auto& target : targets) longest = std::max(longest, target.size());
  const size_t hypotheses = targets.size();
  // Cache rows are handed out in an order of their own: entry lists say where a hypothesis's history lies.
  const auto capacity = static_cast<int64_t>(hypotheses * longest + 3);
  std::vector<int32_t> free_rows(static_cast<size_t>(capacity));
  for (size_t i = 0; i < free_rows.size(); ++i) free_rows[i] = static_cast<int32_t>(i);
  Random(3).shuffle(free_rows);
  const int64_t element = static_cast<int64_t>(size_of(compute));
  std::vector<std::vector<std::byte>> keys, values;
  std::vector<Transformer::LayerCache> caches;
  for (int i = 0; i < c.dec_depth; ++i) {
    const auto [key, value] = model.transformer.cache_widths();
    keys.emplace_back(static_cast<size_t>(capacity * key * element), std::byte{0xFF});
    values.emplace_back(static_cast<size_t>(capacity * value * element), std::byte{0xFF});
  }
  for (size_t i = 0; i < keys.size(); ++i)
    caches.push_back({{keys[i].data(), values[i].data()}, {source_keys[i].data(), source_values[i].data()}});

  std::vector<std::vector<int32_t>> history(hypotheses);
  std::vector<std::vector<float>> losses(hypotheses);
  for (size_t t = 0; t < longest; ++t) {
    std::vector<int32_t> ids, positions, slot, entry, length, row_begin{0}, labels;
    std::vector<size_t> live;
    for (size_t h = 0; h < hypotheses; ++h) {
      if (t < targets[h].size()) {
        live.push_back(h);
        ids.push_back(t == 0 ? -1 : targets[h][t - 1]);
        positions.push_back(static_cast<int32_t>(t));
        slot.push_back(free_rows.back());
        free_rows.pop_back();
        history[h].push_back(slot.back());
        length.push_back(static_cast<int32_t>(t) + 1);
        labels.push_back(targets[h][t]);
        entry.insert(entry.end(), history[h].begin(), history[h].end());
        entry.push_back(-1000);  // a stride beyond the length, never read
      }
      if ((h + 1) % static_cast<size_t>(beam) == 0) row_begin.push_back(static_cast<int32_t>(ids.size()));
    }
    const auto weights = weight_begins(row_begin, batch.source.begin);
    Graph graph(runtime, rules);
    Leaves leaves(graph, model.parameters, false);
    const auto rows = Transformer::step_rows(graph, ids, positions, slot, entry, length);
    const Expr y = model.transformer.step(
        leaves, {rows, row_begin, batch.source.begin, weights, caches, capacity, batch.source.tokens()});
    const float one = 1;
    const Expr loss = cross_entropy(linear(y, model.transformer.output_matrix(leaves)),
                                    graph.input({{static_cast<int64_t>(labels.size())}, DType::kI32}, labels.data()),
                                    graph.input({{1}, {}}, &one), 0);
    graph.run({loss.output(1)});
    for (size_t i = 0; i < live.size(); ++i)
      losses[live[i]].push_back(graph.data<float>(loss.output(1))[static_cast<int64_t>(i)]);
  }
  std::vector<float> all;
  for (const auto& row : losses) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

TEST_CASE("decoding steps give the training graph's probabilities", "[nn]") {
  ModelConfig c = small_config();
  const int beam = GENERATE(1, 3);
  c.norm = GENERATE(std::string("post"), std::string("pre"));
  c.activation = c.norm == "post" ? "relu" : "swiglu";
  c.train_positions = c.norm == "pre";
  c.max_positions = 90;
  c.attention_window = beam == 1 ? 0 : 3;
  std::tie(c.decoder_layer, c.attention) = GENERATE(table<std::string, std::string>({{"self-attention", "scaled-dot"},
                                                                                     {"self-attention", "dot"},
                                                                                     {"self-attention", "additive"},
                                                                                     {"convolution", "scaled-dot"},
                                                                                     {"recurrent", "scaled-dot"}}));
  c.encoder_layer = c.decoder_layer;
  c.kernel_width = 3 + beam;
  const bool fusion = (beam == 1) == (c.norm == "post");
  CAPTURE(c.norm, beam, c.decoder_layer, c.attention);
  TestModel model(c);
  const auto sources = random_sentences({5, 1, 12}, c.source_vocabulary, c.source_eos, 1);
  std::vector<int> lengths;
  for (int h = 0; h < 3 * beam; ++h) lengths.push_back(1 + h * 5 % 17 + (h == 2 ? 70 : 0));
  const auto targets = random_sentences(lengths, c.target_vocabulary, c.eos, 2);
  Sentences repeated;
  for (const auto& source : sources) repeated.insert(repeated.end(), static_cast<size_t>(beam), source);

  const auto whole = run(model, pack(repeated, targets), {.train = false}).token_losses;
  CHECK(difference(stepwise(model, sources, targets, beam, DType::kF32, fusion), whole) < 1e-5);
  if (compute_types().size() == 1) return;
  const auto half = stepwise(model, sources, targets, beam, DType::kBF16, fusion);
  CHECK(difference(half, whole) < 0.05);
}
