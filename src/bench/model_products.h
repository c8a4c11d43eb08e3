#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "nn/model_config.h"

// The matrix products of a model, whose rates are the ceiling of its speed.
namespace nmt {

// y [m, n] = x [m, k] * w [k, n]; a weight's gradient [m, n] sums over k tokens.
struct Product {
  const char* name;
  int64_t m, n, k;
  int count;  // of such products
  bool weight_gradient = false;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// Those of one pass forward over `source` tokens by the encoder and `target` tokens by the decoder.
inline std::vector<Product> forward_products(const ModelConfig& c, int64_t source, int64_t target, int vocabulary) {
  require(c.encoder_layer == "self-attention" && c.decoder_layer == "self-attention",
          "only layers of self-attention are known here");
  const int64_t d = c.dim_emb, f = c.dim_ffn, keys = c.keys(), values = c.values();
  const int inner = c.activation == "swiglu" ? 2 : 1;
  return {{"encoder: queries, keys, values", source, 2 * keys + values, d, c.enc_depth},
          {"encoder: attention's output", source, d, values, c.enc_depth},
          {"encoder: inner layer", source, f, d, inner * c.enc_depth},
          {"encoder: outer layer", source, d, f, c.enc_depth},
          {"decoder: keys, values of the source", source, keys + values, d, c.dec_depth},
          {"decoder: queries, keys, values", target, 2 * keys + values, d, c.dec_depth},
          {"decoder: queries across", target, keys, d, c.dec_depth},
          {"decoder: attention's output", target, d, values, 2 * c.dec_depth},
          {"decoder: inner layer", target, f, d, inner * c.dec_depth},
          {"decoder: outer layer", target, d, f, c.dec_depth},
          {"logits", target, vocabulary, d, 1}};
}

// Those, and in training after each one both of its gradients'.
inline std::vector<Product> products_of(const ModelConfig& c, int64_t source, int64_t target, int vocabulary,
                                        bool train) {
  std::vector<Product> products;
  for (const Product& p : forward_products(c, source, target, vocabulary)) {
    products.push_back(p);
    if (!train) continue;
    products.push_back({"  gradient of x", p.m, p.k, p.n, p.count});
    products.push_back({"  gradient of the weight", p.n, p.k, p.m, p.count, true});
  }
  return products;
}

}  // namespace nmt
