// Which parameters a Transformer has, and how they start.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "nn/transformer.h"

namespace nmt {

const char* Transformer::table_name(bool source) const {
  if (config_.tied_embeddings_all) return "embedding.weight";
  return source ? "source_embedding.weight" : "target_embedding.weight";
}

const char* Transformer::output_name() const { return config_.tied_embeddings ? table_name(false) : "output.weight"; }

const char* Transformer::positions_name(bool source) const {
  return source ? "encoder.position_embedding.weight" : "decoder.position_embedding.weight";
}

std::string Transformer::along_positions_name(bool source, int i) const {
  const std::string& kind = source ? config_.encoder_layer : config_.decoder_layer;
  const char* part = kind == "convolution" ? "convolution" : kind == "recurrent" ? "recurrence" : "self_attention";
  return fmt::format("{}.{}.{}", source ? "encoder" : "decoder", i, part);
}

void Transformer::declare(Parameters& p) const {
  const ModelConfig& c = config_;
  const int64_t d = c.dim_emb;
  const auto norm = [&](const std::string& name) {
    p.declare(name + ".norm.weight", {d});
    p.declare(name + ".norm.bias", {d});
  };
  const auto attention = [&](const std::string& name) {
    p.declare(name + ".query.weight", {c.keys(), d});
    p.declare(name + ".key.weight", {c.keys(), d});
    p.declare(name + ".value.weight", {c.values(), d});
    p.declare(name + ".output.weight", {d, c.values()});
    if (c.attention == "additive") p.declare(name + ".score.weight", {c.heads, c.d_k()});
    norm(name);
  };
  const auto along_positions = [&](bool source, int i) {
    const std::string& kind = source ? c.encoder_layer : c.decoder_layer;
    const std::string name = along_positions_name(source, i);
    if (kind == "self-attention") return attention(name);
    if (kind == "convolution") {
      p.declare(name + ".weight", {d, c.kernel_width * d});
      p.declare(name + ".bias", {d});
    } else {
      p.declare(name + ".input.weight", {d, d});
      p.declare(name + ".input.bias", {d});
      p.declare(name + ".state.weight", {d, d});
    }
    norm(name);
  };
  const auto feed_forward = [&](const std::string& name) {
    p.declare(name + ".inner.weight", {c.dim_ffn, d});
    p.declare(name + ".inner.bias", {c.dim_ffn});
    if (c.activation == "swiglu") {
      p.declare(name + ".gate.weight", {c.dim_ffn, d});
      p.declare(name + ".gate.bias", {c.dim_ffn});
    }
    p.declare(name + ".outer.weight", {d, c.dim_ffn});
    p.declare(name + ".outer.bias", {d});
    norm(name);
  };
  if (!c.tied_embeddings_all) p.declare(table_name(true), {c.source_vocabulary, d});
  p.declare(table_name(false), {c.target_vocabulary, d});
  if (!c.tied_embeddings) p.declare(output_name(), {c.target_vocabulary, d});
  for (const bool source : {true, false})
    if (c.train_positions) p.declare(positions_name(source), {c.max_positions, d});
  for (int i = 0; i < c.enc_depth; ++i) {
    along_positions(true, i);
    feed_forward(fmt::format("encoder.{}.feed_forward", i));
  }
  if (c.norm == "pre") norm("encoder");
  for (int i = 0; i < c.dec_depth; ++i) {
    along_positions(false, i);
    attention(fmt::format("decoder.{}.cross_attention", i));
    feed_forward(fmt::format("decoder.{}.feed_forward", i));
  }
  if (c.norm == "pre") norm("decoder");
}

void Transformer::initialise(Parameters& p, uint64_t seed, bool depth_scaling) const {
  const double depth = depth_scaling ? 1 / std::sqrt(std::max(1, config_.enc_depth + config_.dec_depth)) : 1;
  for (const auto& e : p.entries()) {
    Random random(seed, hash64(e.name));  // a stream of its own: adding a parameter leaves the others as they were
    const auto values = p.values(e);
    const auto ends_with = [&](const char* end) { return e.name.ends_with(end); };
    if (ends_with(".bias")) {
      std::ranges::fill(values, 0.f);
    } else if (ends_with(".norm.weight")) {
      std::ranges::fill(values, 1.f);
    } else if (ends_with("embedding.weight")) {
      for (float& value : values) {  // Box and Muller 1958
        const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
        value =
            static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.uniform()) / std::sqrt(config_.dim_emb));
      }
    } else {
      double limit = std::sqrt(6.0 / static_cast<double>(e.shape[0] + e.shape[1]));
      if (e.name.find("attention.output") != std::string::npos || ends_with(".outer.weight") ||
          ends_with(".convolution.weight"))
        limit *= depth;
      for (float& value : values) value = static_cast<float>((2 * random.uniform() - 1) * limit);
    }
  }
}

}  // namespace nmt
