// How many parameters models have, and how they start.
#include <numeric>

#include <fmt/format.h>

#include "tests/nn/model_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// "Attention Is All You Need", Table 3: what differs from base, and the paper's count in millions (base's where the
// table leaves it out).
struct Row {
  const char* name;
  int layers = 6, d_model = 512, d_ff = 2048, heads = 8, d_k = 64, d_v = 64;
  double millions = 65;
};

const Row kTable3[] = {
    {.name = "base"},
    {.name = "(A) h=1", .heads = 1, .d_k = 512, .d_v = 512},
    {.name = "(A) h=4", .heads = 4, .d_k = 128, .d_v = 128},
    {.name = "(A) h=16", .heads = 16, .d_k = 32, .d_v = 32},
    {.name = "(A) h=32", .heads = 32, .d_k = 16, .d_v = 16},
    {.name = "(B) d_k=16", .d_k = 16, .millions = 58},
    {.name = "(B) d_k=32", .d_k = 32, .millions = 60},
    {.name = "(C) N=2", .layers = 2, .millions = 36},
    {.name = "(C) N=4", .layers = 4, .millions = 50},
    {.name = "(C) N=8", .layers = 8, .millions = 80},
    {.name = "(C) d_model=256", .d_model = 256, .d_k = 32, .d_v = 32, .millions = 28},
    {.name = "(C) d_model=1024", .d_model = 1024, .d_k = 128, .d_v = 128, .millions = 168},
    {.name = "(C) d_ff=1024", .d_ff = 1024, .millions = 53},
    {.name = "(C) d_ff=4096", .d_ff = 4096, .millions = 90},
    {.name = "big", .d_model = 1024, .d_ff = 4096, .heads = 16, .millions = 213},
};
constexpr int64_t kEntries = 37000;

// One shared embedding; an attention has four projections without biases, a feed-forward layer two with biases; each
// sub-layer ends in a layer norm's scale and bias.
int64_t formula(const Row& r) {
  const int64_t d = r.d_model;
  const int64_t attention = 2 * r.heads * static_cast<int64_t>(r.d_k + r.d_v) * d + 2 * d;
  const int64_t feed_forward = 2 * d * r.d_ff + r.d_ff + d + 2 * d;
  return kEntries * d + r.layers * (3 * attention + 2 * feed_forward);
}

ModelConfig config_of(const Row& r) {
  ModelConfig c;
  c.enc_depth = c.dec_depth = r.layers;
  c.dim_emb = r.d_model;
  c.dim_ffn = r.d_ff;
  c.heads = r.heads;
  c.dim_key = r.d_k;
  c.dim_value = r.d_v;
  c.source_vocabulary = c.target_vocabulary = kEntries;
  return c;
}

int64_t declared(const ModelConfig& config) {
  Parameters parameters;
  Transformer(config).declare(parameters);
  return parameters.size();
}

double mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("models of Table 3 have the paper's number of parameters", "[nn]") {
  fmt::print("{:<18} {:>12} {:>10} {:>8}\n", "Table 3", "parameters", "paper/10^6", "differs");
  for (const Row& row : kTable3) {
    INFO(row.name);
    const int64_t count = declared(config_of(row));
    CHECK(count == formula(row));
    const double relative = static_cast<double>(count) / (row.millions * 1e6) - 1;
    fmt::print("{:<18} {:>12} {:>10} {:>7.1f}%\n", row.name, count, row.millions, 100 * relative);
    CHECK(std::fabs(relative) < 0.07);
  }
  CHECK(formula(kTable3[0]) == 63'045'632);
  CHECK(declared(config_of({.name = "base, d_k from d_model / h", .d_k = 0, .d_v = 0})) == 63'045'632);
}

TEST_CASE("options add the parameters they need", "[nn]") {
  const ModelConfig base = config_of(kTable3[0]);
  const int64_t count = declared(base);
  ModelConfig c = base;
  c.norm = "pre";  // one layer norm after each stack
  CHECK(declared(c) == count + 4 * 512);
  c = base;
  c.activation = "swiglu";  // a third matrix and its bias in each feed-forward layer
  CHECK(declared(c) == count + 12 * (512 * 2048 + 2048));
  c = base;
  c.encoder_layer = "convolution";  // a matrix over k positions in place of four, and a bias
  c.kernel_width = 5;
  CHECK(declared(c) == count + 6 * (5 * 512 * 512 + 512 - 4 * 512 * 512));
  c = base;
  c.decoder_layer = "recurrent";  // two matrices and a bias
  CHECK(declared(c) == count + 6 * (2 * 512 * 512 + 512 - 4 * 512 * 512));
  c = base;
  c.attention = "additive";  // a vector for each head of 18 attentions
  CHECK(declared(c) == count + 18 * 8 * 64);
  c = base;
  c.train_positions = true;  // a table for each stack
  c.max_positions = 300;
  CHECK(declared(c) == count + 2 * 300 * 512);
  c = base;
  c.tied_embeddings_all = false;
  c.source_vocabulary = 1000;
  CHECK(declared(c) == count + 1000 * 512);
  c.tied_embeddings = false;
  CHECK(declared(c) == count + 1000 * 512 + kEntries * 512);
}

TEST_CASE("parameters lie one after another, and joined leaves are neighbours", "[nn]") {
  TestModel model(small_config());
  int64_t offset = 0;
  for (const auto& e : model.parameters.entries()) {
    CHECK(e.offset == offset);
    CHECK(&model.parameters.entry(e.name) == &e);
    offset += e.shape.elements();
  }
  CHECK(offset == model.parameters.size());
  CHECK(static_cast<int64_t>(model.parameters.gradients().size()) == offset);
  CHECK_THROWS_AS(model.parameters.entry("encoder.9.norm.weight"), std::logic_error);
  CHECK_THROWS_AS(model.parameters.declare("embedding.weight", {1}), std::logic_error);

  Runtime runtime(1);
  Graph graph(runtime);
  Leaves leaves(graph, model.parameters, true);
  const std::string a = "encoder.0.self_attention.";
  const Expr qkv = leaves.joined({a + "query.weight", a + "key.weight", a + "value.weight"});
  CHECK(qkv.shape() == Shape{21 + 21 + 15, 24});
  CHECK(leaves[a + "query.weight"].shape() == Shape{21, 24});
  CHECK_THROWS_AS(leaves.joined({a + "key.weight", a + "output.weight"}), std::logic_error);
  CHECK_THROWS_AS(leaves.joined({a + "value.weight", a + "output.weight"}), std::logic_error);  // of another width
  CHECK(leaves["embedding.weight"].value() == leaves["embedding.weight"].value());
}

TEST_CASE("initialisation", "[nn]") {
  ModelConfig c = small_config();
  c.dim_emb = 64;
  c.dim_ffn = 256;
  c.heads = 4;
  c.dim_key = c.dim_value = 16;
  c.enc_depth = 3;
  c.decoder_layer = "convolution";
  c.source_vocabulary = c.target_vocabulary = 500;
  c.train_positions = true;
  TestModel model(c), again(c), other(c);
  model.transformer.initialise(model.parameters, 7, false);
  again.transformer.initialise(again.parameters, 7, false);
  other.transformer.initialise(other.parameters, 8, false);
  auto& p = model.parameters;

  SECTION("the same seed gives the same bits, another seed others") {
    CHECK(std::ranges::equal(p.values(), again.parameters.values()));
    for (const auto& e : p.entries()) {
      INFO(e.name);
      CHECK(std::ranges::equal(p.values(e), other.parameters.values(e)) == (e.shape.rank() == 1));
    }
  }
  SECTION("matrices are Glorot uniform, embeddings normal, norms neutral") {
    for (const auto& e : p.entries()) {
      INFO(e.name);
      const auto values = p.values(e);
      if (e.name.ends_with("embedding.weight")) {
        CHECK(mean_square(values) == Approx(1.0 / c.dim_emb).epsilon(0.03));
        double fourth = 0;
        for (const float v : values) fourth += std::pow(static_cast<double>(v), 4) / static_cast<double>(values.size());
        CHECK(fourth / std::pow(mean_square(values), 2) == Approx(3).epsilon(0.1));  // a normal's kurtosis
      } else if (e.shape.rank() == 2) {
        const double limit = std::sqrt(6.0 / static_cast<double>(e.shape[0] + e.shape[1]));
        CHECK(std::ranges::all_of(values, [&](float v) { return std::fabs(v) <= limit; }));
        CHECK(mean_square(values) == Approx(limit * limit / 3).epsilon(0.06));
        CHECK(std::fabs(std::accumulate(values.begin(), values.end(), 0.0)) / static_cast<double>(values.size()) <
              limit * 0.04);
      } else {
        const float value = e.name.ends_with("norm.weight") ? 1.f : 0.f;
        CHECK(std::ranges::all_of(values, [&](float v) { return v == value; }));
      }
    }
  }
  SECTION("depth scaling shrinks the matrices that end a sub-layer") {
    other.transformer.initialise(other.parameters, 7, true);
    const double factor = 1 / std::sqrt(3.0 + 2.0);
    int scaled = 0;
    for (const auto& e : p.entries()) {
      INFO(e.name);
      const bool ends = e.name.ends_with("attention.output.weight") || e.name.ends_with("outer.weight") ||
                        e.name.ends_with("convolution.weight");
      scaled += ends;
      const auto a = p.values(e), b = other.parameters.values(e);
      for (size_t i = 0; i < a.size(); ++i) REQUIRE(b[i] == Approx(a[i] * (ends ? factor : 1)).epsilon(1e-6));
    }
    CHECK(scaled == 3 + 2 * 2 + 5);
  }
  SECTION("a layer more leaves the others as they were") {
    ModelConfig deeper = c;
    deeper.enc_depth = 4;
    TestModel larger(deeper);
    larger.transformer.initialise(larger.parameters, 7, false);
    for (const auto& e : p.entries())
      CHECK(std::ranges::equal(p.values(e), larger.parameters.values(larger.parameters.entry(e.name))));
  }
}

TEST_CASE("a position k further is the same rotation of every position", "[nn]") {
  constexpr int kWidth = 6, kPositions = 600, k = 17;
  const auto table = sinusoids(kPositions, kWidth);  // of any length: a model with sinusoids has no longest sentence
  const auto at = [&](int pos, int column) { return table[static_cast<size_t>(pos * kWidth + column)]; };
  for (int column = 0; column < kWidth; column += 2) {
    const double angle = k / std::pow(10000.0, column / static_cast<double>(kWidth));
    const double c = std::cos(angle), s = std::sin(angle);
    for (int pos = 0; pos + k < kPositions; ++pos) {
      CHECK(at(pos + k, column) == Approx(c * at(pos, column) + s * at(pos, column + 1)).margin(1e-5));
      CHECK(at(pos + k, column + 1) == Approx(c * at(pos, column + 1) - s * at(pos, column)).margin(1e-5));
    }
  }
}

TEST_CASE("sinusoids are those of section 3.5", "[nn]") {
  const auto table = sinusoids(50, 6);
  REQUIRE(table.size() == 300);
  for (int pos = 0; pos < 50; ++pos)
    for (int i = 0; i < 3; ++i) {
      const double angle = pos / std::pow(10000.0, 2 * i / 6.0);
      CHECK(table[static_cast<size_t>(pos * 6 + 2 * i)] == Approx(std::sin(angle)).margin(1e-7));
      CHECK(table[static_cast<size_t>(pos * 6 + 2 * i + 1)] == Approx(std::cos(angle)).margin(1e-7));
    }
}
