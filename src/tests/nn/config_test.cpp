// The model's configuration as JSON.
#include "base/error.h"
#include "base/json.h"
#include "tests/complaint.h"
#include "tests/nn/model_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// The message of the UserError that reading `json` ends with.
std::string complaint(const std::string& json) {
  const std::string message = complaint_of([&] { ModelConfig::from_json(json, "m.safetensors"); });
  CHECK(message.find('\n') == std::string::npos);
  CHECK((message.empty() || message.starts_with("m.safetensors: ")));
  return message;
}

// All that a file may name.
ModelConfig unusual_config() {
  ModelConfig c = small_config();
  c.attention = "dot";
  c.attention_window = 5;
  c.encoder_layer = "recurrent";
  c.decoder_layer = "convolution";
  c.kernel_width = 5;
  c.train_positions = true;
  c.max_positions = 300;
  return c;
}

}  // namespace

TEST_CASE("a configuration survives JSON", "[nn]") {
  ModelConfig c;
  c.dim_emb = 96;
  c.dim_ffn = 100;
  c.heads = 5;
  c.dim_key = 11;
  c.dim_value = 13;
  c.enc_depth = 0;
  c.dec_depth = 7;
  c.tied_embeddings_all = c.tied_embeddings = false;
  c.norm = "pre";
  c.activation = "swiglu";
  c.attention = "dot";
  c.attention_window = 9;
  c.encoder_layer = "convolution";
  c.decoder_layer = "recurrent";
  c.kernel_width = 4;
  c.train_positions = true;
  c.max_positions = 77;
  c.target_trees = true;
  c.dropout = 0.3;
  c.dropout_attention = 0.1;
  c.dropout_ffn = 1.0 / 3;
  c.source_vocabulary = 1000;
  c.target_vocabulary = 2000;
  c.eos = 1999;
  c.source_eos = 999;
  CHECK(ModelConfig::from_json(c.to_json(), "m") == c);
  // And above are all options, none at its default.
  ModelConfig usual;
  Options options, defaults;
  c.declare(options);
  usual.declare(defaults);
  const auto json = parse_json(c.to_json());
  for (Option& option : options.all()) {
    INFO(option.name());
    CHECK(json.contains(option.name()));
    CHECK(option.get() != defaults.find(option.name())->get());
  }

  ModelConfig base;
  base.source_vocabulary = base.target_vocabulary = 10;
  const ModelConfig explicit_widths = ModelConfig::from_json(base.to_json(), "m");
  CHECK(explicit_widths.dim_key == 64);  // the file says what 0 stood for
  CHECK(explicit_widths.dim_value == 64);
}

TEST_CASE("a file names later options only where they are not the default, so that older ones are read", "[nn]") {
  const auto stored = parse_json(small_config().to_json());
  CHECK(stored.contains("transformer-norm"));
  for (const char* later : {"transformer-attention", "transformer-attention-window", "transformer-encoder-layer",
                            "transformer-decoder-layer", "transformer-kernel-width",
                            "transformer-train-position-embeddings", "transformer-max-positions"}) {
    INFO(later);
    CHECK_FALSE(stored.contains(later));
    CHECK(parse_json(unusual_config().to_json()).contains(later));
  }
}

TEST_CASE("damaged and hostile configurations are answered", "[nn]") {
  const auto usual = parse_json(small_config().to_json());
  const auto good = parse_json(unusual_config().to_json());
  CHECK(complaint(json_text(good)).empty());
  for (const char* text : {"", "{", "[]", "null", "1", "\"text\"", "{}", "\xff\xfe", "{\"dim-emb\": }"})
    CHECK_FALSE(complaint(text).empty());
  for (const auto& [key, value] : good.items()) {
    INFO(key);
    auto json = good;
    json.erase(key);
    if (usual.contains(key))
      CHECK(complaint(json_text(json)).find("'" + key + "'") != std::string::npos);
    else
      CHECK(complaint(json_text(json)).empty());
    for (const nlohmann::json& wrong : {nlohmann::json(nullptr), nlohmann::json("x"), nlohmann::json::array({1}),
                                        nlohmann::json::object(), nlohmann::json(-1), nlohmann::json(1e300),
                                        nlohmann::json(INT64_MAX), nlohmann::json(UINT64_MAX), nlohmann::json(2.5)}) {
      json = good;
      json[key] = wrong;
      INFO(json_text(wrong));
      CHECK_FALSE(complaint(json_text(json)).empty());
    }
  }
  auto newer = good;
  newer["transformer-attention-sinks"] = 4;
  CHECK(complaint(json_text(newer)).find("has 'transformer-attention-sinks', which this nmt does not know") !=
        std::string::npos);
  newer.erase("transformer-attention-sinks");
  newer["transformer-dropout-embeddings"] = 0.1;  // changes no translation
  CHECK(complaint(json_text(newer)).empty());
  // Each value is a number of the right kind, but not one that a model can have.
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"dim-emb", 0},
                                                           {"dim-emb", 25},
                                                           {"dim-emb", 1 << 30},
                                                           {"transformer-dim-ffn", 0},
                                                           {"transformer-dim-ffn", 1 << 30},
                                                           {"transformer-heads", 0},
                                                           {"transformer-heads", 1 << 30},
                                                           {"transformer-dim-key", 1 << 30},
                                                           {"transformer-dim-value", 1 << 30},
                                                           {"enc-depth", 100000},
                                                           {"dec-depth", 0},
                                                           {"source-vocab-size", 0},
                                                           {"source-vocab-size", 30},  // tied to the target's
                                                           {"tied-embeddings", false},
                                                           {"target-vocab-size", 0},
                                                           {"eos-id", 31},
                                                           {"source-eos-id", 31},
                                                           {"transformer-dropout", 1.0},
                                                           {"transformer-dropout-attention", 1.5},
                                                           {"transformer-attention", "cosine"},
                                                           {"transformer-attention-window", 1 << 21},
                                                           {"transformer-encoder-layer", "dense"},
                                                           {"transformer-decoder-layer", "attention"},
                                                           {"transformer-kernel-width", 0},
                                                           {"transformer-max-positions", 1},
                                                           {"transformer-norm", "both"},
                                                           {"transformer-ffn-activation", "tanh"}}) {
    auto json = usual.contains(key) ? usual : good;
    json[key] = value;
    INFO(key << " " << json_text(value));
    CHECK_FALSE(complaint(json_text(json)).empty());
  }
}

TEST_CASE("sizes that do not fit together are the user's errors", "[nn]") {
  ModelConfig c = small_config();
  CHECK_NOTHROW(c.validate());
  const auto refused = [&](auto change) {
    ModelConfig changed = small_config();
    change(changed);
    CHECK_THROWS_AS(changed.validate(), UserError);
  };
  refused([](ModelConfig& m) { m.dim_emb = 25; });
  c.dim_emb = 25;
  c.train_positions = true;  // only sines and cosines come in pairs
  CHECK_NOTHROW(c.validate());
  c = small_config();
  refused([](ModelConfig& m) { m.dim_key = 0, m.heads = 5; });
  refused([](ModelConfig& m) { m.source_vocabulary = 30; });
  refused([](ModelConfig& m) { m.tied_embeddings = false; });
  CHECK_NOTHROW(c.validate_for_devices());
  c.decoder_layer = "recurrent";
  CHECK_NOTHROW(c.validate());
  CHECK_THROWS_AS(c.validate_for_devices(), UserError);
  c = small_config();
  c.attention = "additive";
  CHECK_THROWS_AS(c.validate_for_devices(), UserError);
  c.dim_key = c.dim_value = 0;
  c.heads = 4;
  CHECK_NOTHROW(c.validate());
  CHECK(c.d_k() == 6);
}

// So that a model that devices cannot compute is refused before work begins, and none that they can.
TEST_CASE("devices take exactly the models whose ops they all have", "[nn]") {
  if (!kHaveCuda) return;
  std::vector<ModelConfig> configs = {small_config()};
  // Each choice of each option alone; ranges have no ops of their own.
  for (const auto& [name, values] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"transformer-norm", {"pre"}},
           {"transformer-ffn-activation", {"gelu", "swiglu"}},
           {"transformer-attention", {"dot", "additive"}},
           {"transformer-attention-window", {"3"}},
           {"transformer-encoder-layer", {"convolution", "recurrent"}},
           {"transformer-decoder-layer", {"convolution", "recurrent"}},
           {"transformer-train-position-embeddings", {"true"}},
           {"transformer-dropout", {"0.2"}},
           {"transformer-dropout-attention", {"0.2"}},
           {"transformer-dropout-ffn", {"0.2"}}})
    for (const auto& value : values) {
      ModelConfig config = small_config();
      Options options;
      config.declare(options);
      options.find(name)->set({value});
      configs.push_back(config);
    }
  for (const ModelConfig& config : configs) {
    INFO(config.to_json());
    TestModel model(config);
    const Sentences text = random_sentences({4, 1, 6}, config.target_vocabulary, config.eos, 1);
    const PairInput batch = pack(text, text);
    Runtime runtime(1, DType::kF32);
    Graph graph(runtime, fusion_rules());
    Leaves leaves(graph, model.parameters, true);
    const float weight = 1;
    graph.backward(model.transformer.loss(leaves, batch, &weight, 0.1));
    bool all = true;
    for (const Node& node : graph.nodes()) all = all && (!node.op || node.op.has_cuda());
    bool taken = true;
    try {
      config.validate_for_devices();
    } catch (const UserError&) {
      taken = false;
    }
    CHECK(taken == all);
  }
}
