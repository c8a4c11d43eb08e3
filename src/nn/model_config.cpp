#include "nn/model_config.h"

#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "io/model_file.h"
#include "tensor/arguments.h"

namespace nmt {
namespace {

// Every field once: reading, writing and checking visit them in this order. Later ones are in the file only where they
// are not the default: files from before lack them.
template <class Config, class Visit>
void visit(Config& c, Visit&& field) {
  field("dim-emb", c.dim_emb);
  field("transformer-dim-ffn", c.dim_ffn);
  field("transformer-heads", c.heads);
  field("transformer-dim-key", c.dim_key);
  field("transformer-dim-value", c.dim_value);
  field("enc-depth", c.enc_depth);
  field("dec-depth", c.dec_depth);
  field("tied-embeddings-all", c.tied_embeddings_all);
  field("tied-embeddings", c.tied_embeddings);
  field("transformer-norm", c.norm);
  field("transformer-ffn-activation", c.activation);
  field("transformer-dropout", c.dropout);
  field("transformer-dropout-attention", c.dropout_attention);
  field("transformer-dropout-ffn", c.dropout_ffn);
  field("source-vocab-size", c.source_vocabulary);
  field("target-vocab-size", c.target_vocabulary);
  field("eos-id", c.eos);
  field("source-eos-id", c.source_eos);
}
template <class Config, class Visit>
void visit_later(Config& c, Visit&& field) {
  field("transformer-attention", c.attention);
  field("transformer-attention-window", c.attention_window);
  field("transformer-encoder-layer", c.encoder_layer);
  field("transformer-decoder-layer", c.decoder_layer);
  field("transformer-kernel-width", c.kernel_width);
  field("transformer-train-position-embeddings", c.train_positions);
  field("transformer-max-positions", c.max_positions);
  field("target-trees", c.target_trees);
}

nlohmann::ordered_json all_values(const ModelConfig& config) {
  nlohmann::ordered_json json;
  const auto set = [&](const char* name, const auto& value) { json[name] = value; };
  visit(config, set);
  visit_later(config, set);
  json["transformer-dim-key"] = config.d_k();
  json["transformer-dim-value"] = config.d_v();
  return json;
}

}  // namespace

void ModelConfig::declare(Options& o) {
  o.group("Model");
  o.add("dim-emb", dim_emb, "Width of embeddings and layers (d_model)").range(2, 65536);
  o.add("transformer-dim-ffn", dim_ffn, "Inner width of the feed-forward layers (d_ff)").range(1, 1 << 20);
  o.add("transformer-heads", heads, "Attention heads (h)").range(1, 1024);
  o.add("transformer-dim-key", dim_key, "Width of a head's queries and keys (d_k); 0: d_model / h").range(0, 65536);
  o.add("transformer-dim-value", dim_value, "Width of a head's values (d_v); 0: d_model / h").range(0, 65536);
  o.add("enc-depth", enc_depth, "Encoder layers").range(0, 1000);
  o.add("dec-depth", dec_depth, "Decoder layers").range(1, 1000);
  o.add("tied-embeddings-all", tied_embeddings_all, "One matrix for both embeddings and the output layer");
  o.add("tied-embeddings", tied_embeddings, "One matrix for the target embedding and the output layer");
  o.add("transformer-norm", norm, "Layer normalisation after or before each sub-layer").choices({"post", "pre"});
  o.add("transformer-ffn-activation", activation, "Activation of the feed-forward layers")
      .choices({"relu", "gelu", "swiglu"});
  o.add("transformer-attention", attention,
        "How a query and a key are compared: their product by d_k^-0.5, their product alone, or a weighted tanh of "
        "their sum")
      .choices({"scaled-dot", "dot", "additive"});
  o.add("transformer-attention-window", attention_window,
        "Self-attention to positions at most so far away, in the decoder to earlier ones of them; 0: to all")
      .range(0, 1 << 20);
  const std::vector<std::string> layers = {"self-attention", "convolution", "recurrent"};
  o.add("transformer-encoder-layer", encoder_layer,
        "What stands in the encoder's layers in place of self-attention; recurrent: from left to right and back in "
        "turns")
      .choices(layers);
  o.add("transformer-decoder-layer", decoder_layer, "The same in the decoder's, where nothing looks ahead")
      .choices(layers);
  o.add("transformer-kernel-width", kernel_width, "Positions that a convolution sees, in the decoder the last ones")
      .range(1, 1000);
  o.add("transformer-train-position-embeddings", train_positions,
        "Learn a vector for each position of a sentence, in place of sines and cosines");
  o.add("transformer-max-positions", max_positions,
        "With these: how many positions there are, the longest sentence with its end token")
      .range(2, 1 << 20);
  o.add("transformer-dropout", dropout, "Dropout of sub-layer outputs and embeddings").range(0, 0.99);
  o.add("transformer-dropout-attention", dropout_attention, "Dropout of attention weights").range(0, 0.99);
  o.add("transformer-dropout-ffn", dropout_ffn, "Dropout inside the feed-forward layers").range(0, 0.99);
  o.add("target-trees", target_trees,
        "The target is trees as nmt-vocab linearise writes them: translations are trees of their source's words");
}

void ModelConfig::validate() const {
  require(train_positions || dim_emb % 2 == 0, "--dim-emb: {} is odd, positions need pairs of sine and cosine",
          dim_emb);
  require((dim_key > 0 && dim_value > 0) || dim_emb % heads == 0,
          "--transformer-heads: {} heads do not divide --dim-emb {} (give --transformer-dim-key and "
          "--transformer-dim-value)",
          heads, dim_emb);
  require(!tied_embeddings_all || source_vocabulary == target_vocabulary,
          "--tied-embeddings-all needs one vocabulary for both sides, but they have {} and {} entries",
          source_vocabulary, target_vocabulary);
  require(!tied_embeddings_all || tied_embeddings, "--tied-embeddings-all includes --tied-embeddings, which is off");
}

void ModelConfig::validate_for_devices() const {
  require(dim_emb <= kWidestLayerNormOfDevices, "--dim-emb {}: devices compute up to {}; give --devices cpu", dim_emb,
          kWidestLayerNormOfDevices);
  require(attention != "additive", "--transformer-attention additive is computed on the CPU only: give --devices cpu");
  for (const auto& [option, kind] : {std::pair("--transformer-encoder-layer", &encoder_layer),
                                     std::pair("--transformer-decoder-layer", &decoder_layer)})
    require(*kind == "self-attention", "{} {} is computed on the CPU only: give --devices cpu", option, *kind);
}

std::string ModelConfig::difference(const ModelConfig& other) const {
  const auto here = all_values(*this), there = all_values(other);
  for (const auto& [name, value] : here.items())
    if (is_architecture(name) && value != there[name])
      return fmt::format("{} is {}, not {}", name, json_text(value), json_text(there[name]));
  return "";
}

std::string ModelConfig::to_json() const {
  auto json = all_values(*this);
  const ModelConfig usual;
  visit_later(usual, [&](const char* name, const auto& value) {
    if (json[name] == value) json.erase(name);
  });
  return json_text(json);
}

ModelConfig ModelConfig::from_json(const std::string& text, const std::string& file) {
  const auto json = parse_json(text);
  require(json.is_object(), "{}: the model's configuration is damaged", file);
  ModelConfig config;
  Options options;
  config.declare(options);
  std::set<std::string_view> known;
  const auto read = [&]<class T>(const char* name, T& value) {
    known.insert(name);
    const auto found = json.find(name);
    const bool fits = std::is_same_v<T, bool>     ? found->is_boolean()
                      : std::is_same_v<T, int>    ? found->is_number_integer() && *found >= 0 && *found <= (1 << 30)
                      : std::is_same_v<T, double> ? found->is_number()
                                                  : found->is_string();
    require(fits, "{}: the model's configuration has a wrong value for '{}'", file, name);
    value = found->get<T>();
  };
  visit(config, [&](const char* name, auto& value) {
    require(json.contains(name), "{}: the model's configuration lacks '{}'", file, name);
    read(name, value);
  });
  visit_later(config, [&](const char* name, auto& value) {
    if (json.contains(name)) read(name, value);
  });
  for (const auto& [name, value] : json.items())
    require(known.contains(name) || !is_architecture(name),
            "{}: the model's configuration has '{}', which this nmt does not know: a newer one made the model", file,
            printable(name));
  try {
    for (auto& option : options.all()) option.set(option.get());  // held to the ranges and choices of the options
    config.validate();
  } catch (const UserError& error) {
    user_error("{}: the model's configuration is out of range: {}", file, error.what());
  }
  require(config.source_vocabulary > 0 && config.target_vocabulary > 0 && config.eos < config.target_vocabulary &&
              config.source_eos < config.source_vocabulary,
          "{}: the model's configuration is out of range: {} and {} entries, </s> {} and {}", file,
          config.source_vocabulary, config.target_vocabulary, config.source_eos, config.eos);
  return config;
}

}  // namespace nmt
