// Whole models, forward and backward.
#include <set>

#include "tests/compute_types.h"
#include "tests/device.h"
#include "tests/nn/model_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

const std::vector<int> kSourceLengths{5, 1, 9, 33, 2, 7}, kTargetLengths{7, 4, 1, 20, 3, 70};

PairInput random_batch(const ModelConfig& c, uint64_t seed = 1) {
  return pack(random_sentences(kSourceLengths, c.source_vocabulary, c.source_eos, seed),
              random_sentences(kTargetLengths, c.target_vocabulary, c.eos, seed + 1));
}

// Also layers that devices do not compute.
std::vector<ModelConfig> variants(bool on_host = true) {
  std::vector<ModelConfig> all;
  for (const char* norm : {"post", "pre"})
    for (const char* activation : {"relu", "gelu", "swiglu"}) {
      ModelConfig c = small_config();
      c.norm = norm;
      c.activation = activation;
      all.push_back(c);
    }
  all[1].tied_embeddings_all = false;
  all[1].source_vocabulary = 40;
  all[2].tied_embeddings_all = all[2].tied_embeddings = false;
  all[3].enc_depth = 0;
  all[4].dim_key = all[4].dim_value = 0;
  all[4].heads = 1;
  all[5].train_positions = true;
  all[5].max_positions = 80;
  all[0].attention_window = 15;  // two layers reach the whole of a sentence whose tokens all matter to its last
  all[4].attention = "dot";
  if (on_host) {
    all[3].attention = "additive";  // only across: it has no encoder layers
    all[2].attention = "additive";
    for (const auto& [encoder, decoder] :
         {std::pair("convolution", "recurrent"), std::pair("recurrent", "convolution")}) {
      ModelConfig c = small_config();
      c.encoder_layer = encoder;
      c.decoder_layer = decoder;
      c.kernel_width = 13;
      all.push_back(c);
    }
  }
  return all;
}

std::string title(const ModelConfig& c) { return c.to_json(); }

}  // namespace

TEST_CASE("a whole model is the same with and without fusion, dropout on", "[nn]") {
  for (ModelConfig c : variants()) {
    c.dropout = 0.1;
    c.dropout_attention = 0.2;
    c.dropout_ffn = 0.3;
    INFO(title(c));
    TestModel model(c);
    const PairInput batch = random_batch(c);
    const Result fused = run(model, batch), composed = run(model, batch, {.fusion = false});
    check_close(fused, composed, 1e-5);
    for (const auto& [name, gradient] : fused.gradients) {
      INFO(name);
      CHECK(std::ranges::any_of(gradient, [](float g) { return g != 0; }));
    }
    check_close(run(model, batch, {.train = false}), run(model, batch, {.fusion = false, .train = false}), 1e-5);
  }
}

TEST_CASE("the number of threads changes no bit", "[nn]") {
  for (const DType compute : compute_types()) {
    ModelConfig c = small_config();
    c.dropout = c.dropout_attention = c.dropout_ffn = 0.1;
    c.dim_emb = 300;  // more than a panel of columns
    TestModel model(c);
    const PairInput batch = random_batch(c);
    const Result one = run(model, batch, {.compute = compute});
    for (int repeat = 0; repeat < 3; ++repeat)
      for (const int threads : {1, 2, 3, 5})
        check_same_bits(run(model, batch, {.threads = threads, .compute = compute}), one);
    CHECK(run(model, batch, {.compute = compute, .step = 4}).loss != one.loss);  // another step, another mask
  }
}

TEST_CASE("a device computes what the host does", "[nn]") {
  const auto device = test_device();
  if (device == nullptr) return;
  ModelConfig config = small_config();
  config.dropout = config.dropout_attention = config.dropout_ffn = 0.1;
  config.activation = GENERATE("relu", "gelu", "swiglu");
  config.norm = GENERATE("post", "pre");
  const Sentences source = random_sentences({3, 9, 1, 6}, 31, 2, 1), target = random_sentences({5, 2, 8, 1}, 31, 2, 2);
  const PairInput batch = pack(source, target);
  TestModel here(config), there(config, 1, device);
  const bool fusion = GENERATE(true, false);
  const Result expected = run(here, batch, {.fusion = fusion});
  const RunOptions on_device{.fusion = fusion, .backend = device};
  const Result result = run(there, batch, on_device);
  check_close(result, expected, 2e-5);
  set_thread_order(GENERATE(0, 1));
  check_same_bits(run(there, batch, on_device), result);
  set_thread_order(0);
}

TEST_CASE("bf16 follows f32", "[nn]") {
  // Stated bounds: 2% of the loss, and gradients whose direction differs by a cosine of at least 0.98.
  const auto backend = GENERATE(host_backend(), test_device());
  if (backend == nullptr || (backend->on_host() && compute_types().size() == 1)) return;
  for (const ModelConfig& c : variants(backend->on_host())) {
    INFO(title(c) << " on " << backend->name());
    TestModel model(c), there(c, 1, backend);
    const PairInput batch = random_batch(c);
    const Result half = run(there, batch, {.compute = DType::kBF16, .backend = backend}), full = run(model, batch);
    CHECK(half.loss == Approx(full.loss).epsilon(0.02));
    CHECK(half.loss != full.loss);
    for (const auto& [name, gradient] : full.gradients) {
      INFO(name);
      double product = 0, a = 0, b = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double x = gradient[i], y = half.gradients.at(name)[i];
        product += x * y;
        a += x * x;
        b += y * y;
      }
      CHECK(product / std::sqrt(a * b) > 0.98);
    }
  }
}

TEST_CASE("a packed batch is its sentences one by one", "[nn]") {
  for (const ModelConfig& c : variants()) {
    INFO(title(c));
    TestModel model(c);
    const auto source = random_sentences(kSourceLengths, c.source_vocabulary, c.source_eos, 1);
    const auto target = random_sentences(kTargetLengths, c.target_vocabulary, c.eos, 2);
    const Result packed = run(model, pack(source, target));
    Result sum;
    for (size_t s = 0; s < source.size(); ++s) {
      const Result one = run(model, pack({source[s]}, {target[s]}));
      sum.loss += one.loss;
      sum.token_losses.insert(sum.token_losses.end(), one.token_losses.begin(), one.token_losses.end());
      for (const auto& [name, gradient] : one.gradients) {
        auto& total = sum.gradients[name];
        total.resize(gradient.size());
        for (size_t i = 0; i < gradient.size(); ++i) total[i] += gradient[i];
      }
    }
    check_close(packed, sum, 1e-5);
  }
}

TEST_CASE("a token's loss depends on nothing behind it and on no other sentence", "[nn]") {
  for (const ModelConfig& c : variants()) {
    INFO(title(c));
    TestModel model(c);
    const auto source = random_sentences({6, 9, 4}, c.source_vocabulary, c.source_eos, 1);
    const auto target = random_sentences({8, 12, 5}, c.target_vocabulary, c.eos, 2);
    const RunOptions scoring{.train = false};
    const auto before = run(model, pack(source, target), scoring).token_losses;
    const size_t first = target[0].size(), changed = 4;  // token 4 of sentence 1
    auto other = target;
    other[1][changed] = (other[1][changed] + 1) % c.target_vocabulary;
    const auto after = run(model, pack(source, other), scoring).token_losses;
    for (size_t i = 0; i < before.size(); ++i) {
      INFO("token " << i);
      const bool may_change = i >= first + changed && i < first + target[1].size();
      CHECK((before[i] != after[i]) == may_change);
    }
    auto moved = source;
    moved[1][3] = (moved[1][3] + 1) % c.source_vocabulary;
    const auto with_source = run(model, pack(moved, target), scoring).token_losses;
    for (size_t i = 0; i < before.size(); ++i) {
      INFO("token " << i);
      CHECK((before[i] != with_source[i]) == (i >= first && i < first + target[1].size()));
    }
  }
}

TEST_CASE("a tied embedding's gradient is the sum of its three roles", "[nn]") {
  ModelConfig c = small_config();
  TestModel tied(c);
  c.tied_embeddings = c.tied_embeddings_all = false;
  TestModel untied(c);
  const auto& matrix = tied.parameters.entry("embedding.weight");
  for (const char* name : {"source_embedding.weight", "target_embedding.weight", "output.weight"})
    std::ranges::copy(tied.parameters.values(matrix), untied.parameters.values(untied.parameters.entry(name)).begin());
  const PairInput batch = random_batch(c);
  const Result one = run(tied, batch), three = run(untied, batch);
  CHECK(one.loss == three.loss);
  std::vector<float> sum(one.gradients.at("embedding.weight").size());
  for (const char* name : {"source_embedding.weight", "target_embedding.weight", "output.weight"})
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += three.gradients.at(name)[i];
  CHECK(difference(one.gradients.at("embedding.weight"), sum) <= 1e-6);
}

TEST_CASE("of an even number of positions a convolution of the encoder sees one more before than behind", "[nn]") {
  ModelConfig c = small_config();
  c.encoder_layer = "convolution";
  c.kernel_width = 1;
  TestModel one(c);
  c.kernel_width = 2;
  TestModel two(c);  // of which the position before counts nothing
  const auto width = static_cast<size_t>(c.dim_emb);
  for (const char* name : {"encoder.0.convolution.weight", "encoder.1.convolution.weight"}) {
    const auto from = one.parameters.values(one.parameters.entry(name));
    const auto to = two.parameters.values(two.parameters.entry(name));
    std::ranges::fill(to, 0.f);
    for (size_t i = 0; i < from.size(); ++i) to[i + (i / width + 1) * width] = from[i];
  }
  const PairInput batch = random_batch(c);
  CHECK(run(two, batch).loss == Approx(run(one, batch).loss));
}

TEST_CASE("the encoder's recurrent layers read a sentence forwards and backwards in turns", "[nn]") {
  ModelConfig c = small_config();
  c.encoder_layer = "recurrent";
  c.enc_depth = 4;
  for (int layer = 0; layer < c.enc_depth; ++layer) {
    INFO("layer " << layer);
    TestModel model(c);
    for (int other = 0; other < c.enc_depth; ++other)  // in which each position stays alone
      if (other != layer) {
        const auto& e = model.parameters.entry(fmt::format("encoder.{}.recurrence.state.weight", other));
        std::ranges::fill(model.parameters.values(e), 0.f);
      }
    const auto encoded = [&](const std::vector<int32_t>& ids) {
      const std::vector<int32_t> begin{0, static_cast<int32_t>(ids.size())};
      const PackedText text(ids, begin);
      const auto weights = weight_begins(begin, begin);
      Runtime runtime(1);
      Graph graph(runtime);
      Leaves leaves(graph, model.parameters, false);
      const Expr y = model.transformer.encode(leaves, text, weights);
      graph.run({y});
      const float* data = graph.data<float>(y);
      return std::vector(data, data + y.shape().elements());
    };
    const auto before = encoded({4, 5, 6, 7, 8}), after = encoded({4, 5, 9, 7, 8});
    for (int i = 0; i < 5; ++i) {
      INFO("position " << i);
      const bool same = std::equal(&before[static_cast<size_t>(i * c.dim_emb)],
                                   &before[static_cast<size_t>(i * c.dim_emb)] + c.dim_emb,
                                   &after[static_cast<size_t>(i * c.dim_emb)]);
      CHECK(same == (layer % 2 == 0 ? i < 2 : i > 2));
    }
  }
}

TEST_CASE("every site of dropout has a name and a number of its own", "[nn]") {
  ModelConfig c = small_config();
  c.dropout = 0.1;
  c.dropout_attention = 0.2;
  c.dropout_ffn = 0.3;
  TestModel model(c);
  const PairInput batch = random_batch(c);
  std::set<std::string> names;
  std::set<uint32_t> numbers;
  for (const auto& site : run(model, batch).sites) {
    names.insert(site.name);
    numbers.insert(site.number);
    CHECK(site.rate == (site.name.ends_with(".weights") ? 0.2f : site.name.ends_with(".inner") ? 0.3f : 0.1f));
  }
  // Two embeddings; a residual for each of 2 * 2 + 2 * 3 sub-layers; 2 + 2 * 2 attentions; 4 feed-forward layers.
  CHECK(names.size() == 2 + 10 + 6 + 4);
  CHECK(numbers.size() == names.size());
  for (const char* name : {"encoder.embed", "decoder.embed", "encoder.1.self_attention.weights",
                           "decoder.0.cross_attention.residual", "decoder.1.feed_forward.inner"})
    CHECK(names.count(name) == 1);
  CHECK(run(model, batch, {.train = false}).sites.empty());
}

TEST_CASE("pairs of positions that attend to each other are numbered sentence by sentence", "[nn]") {
  const PairInput batch = pack({{4, 2}, {5, 6, 2}}, {{7, 8, 9, 2}, {2}});
  CHECK(batch.source_weights == std::vector<int64_t>{0, 4, 13});
  CHECK(batch.target_weights == std::vector<int64_t>{0, 16, 17});
  CHECK(batch.cross_weights == std::vector<int64_t>{0, 8, 11});
}

TEST_CASE("a window hides what is farther away in either side, but nothing of the source from the target", "[nn]") {
  ModelConfig c = small_config();
  c.attention_window = 3;
  TestModel model(c);
  const int64_t length = 9;
  const PairInput batch = pack(random_sentences({length}, c.source_vocabulary, c.source_eos, 1),
                               random_sentences({length}, c.target_vocabulary, c.eos, 2));
  Runtime runtime(1);
  Graph graph(runtime);
  Leaves leaves(graph, model.parameters, false);
  model.transformer.loss(leaves, batch);
  const Expr encoder = leaves.find("encoder.1.self_attention.weights"),
             decoder = leaves.find("decoder.1.self_attention.weights"),
             across = leaves.find("decoder.1.cross_attention.weights");
  graph.run({encoder, decoder, across});
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < length; ++j) {
        INFO("head " << h << ", query " << i << ", key " << j);
        const int64_t at = (h * length + i) * length + j;
        CHECK((graph.data<float>(encoder)[at] > 0) == (std::abs(i - j) <= 3));
        CHECK((graph.data<float>(decoder)[at] > 0) == (j <= i && i - j <= 3));
        CHECK(graph.data<float>(across)[at] > 0);
      }
}

TEST_CASE("a batch without tokens has no loss and no gradient", "[nn]") {
  TestModel model(small_config());
  const Result result = run(model, pack({}, {}));
  CHECK(result.loss == 0);
  for (const auto& [name, gradient] : result.gradients) {
    INFO(name);
    CHECK(std::ranges::all_of(gradient, [](float g) { return g == 0; }));
  }
}

TEST_CASE("attention weights have names, and are the same with fusion or without", "[nn]") {
  for (const ModelConfig& c : variants()) {
    INFO(title(c));
    TestModel model(c);
    const PairInput batch = random_batch(c);
    std::vector<float> losses[2], weights[2];
    for (const bool fusion : {false, true}) {
      Runtime runtime(2);
      Graph graph(runtime, fusion ? fusion_rules() : std::span<const FusionRule>());
      Leaves leaves(graph, model.parameters, false);
      const Expr loss = model.transformer.loss(leaves, batch);
      std::vector<Expr> outputs;
      const auto find = [&](const char* side, int layer, const char* kind, bool there) {
        const Expr found = leaves.find(fmt::format("{}.{}.{}_attention.weights", side, layer, kind));
        CHECK(static_cast<bool>(found) == there);
        if (found) outputs.push_back(found);
      };
      const bool products = c.attention != "additive";  // which keeps no weights
      for (int i = 0; i < c.enc_depth; ++i) find("encoder", i, "self", products && c.encoder_layer == "self-attention");
      for (int i = 0; i < c.dec_depth; ++i) {
        find("decoder", i, "self", products && c.decoder_layer == "self-attention");
        find("decoder", i, "cross", products);
      }
      outputs.push_back(loss.output(1));
      graph.run(outputs);
      const auto append = [&](std::vector<float>& to, Expr x) {
        to.insert(to.end(), graph.data<float>(x), graph.data<float>(x) + x.shape().elements());
      };
      append(losses[fusion], outputs.back());
      outputs.pop_back();
      for (const Expr& x : outputs) append(weights[fusion], x);
      CHECK_FALSE(leaves.find("decoder.9.self_attention.weights"));
    }
    CHECK(difference(weights[1], weights[0]) <= 1e-5);
    CHECK(difference(losses[1], losses[0]) <= 1e-5);
  }
}
