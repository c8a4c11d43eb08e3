#pragma once

#include <cstdint>
#include <string>

#include "config/options.h"

namespace nmt {

// What a model is made of; stored in its file. Names and defaults are those of the options; the defaults are the base
// model of "Attention Is All You Need" (Table 3).
struct ModelConfig {
  int dim_emb = 512;   // d_model
  int dim_ffn = 2048;  // d_ff
  int heads = 8;       // h
  int dim_key = 0;     // d_k of a head; 0: d_model / h
  int dim_value = 0;   // d_v of a head; 0: d_model / h
  int enc_depth = 6, dec_depth = 6;
  bool tied_embeddings_all = true;  // one matrix for both embeddings and the output (section 3.4)
  bool tied_embeddings = true;      // the target embedding is the output matrix
  std::string norm = "post";        // LayerNorm(x + Sublayer(x)) (section 3.1), or "pre": x + Sublayer(LayerNorm(x))
  std::string activation = "relu";  // section 3.3; gelu and swiglu beyond it
  std::string attention = "scaled-dot";  // section 3.2.1; "dot": without the factor d_k^-0.5; "additive"
  int attention_window = 0;  // self-attention to positions that are at most so far away (section 4); 0: to all
  // What lets positions know each other (section 4, Table 1): "self-attention", "convolution" or "recurrent".
  std::string encoder_layer = "self-attention", decoder_layer = "self-attention";
  int kernel_width = 3;          // positions that a convolution sees (k)
  bool train_positions = false;  // a parameter for each position in place of sinusoids (section 3.5; Table 3, row E)
  int max_positions = 512;       // how many: the longest sentence, with </s>, that such a model reads or writes
  double dropout = 0.1;          // P_drop of section 5.4: on embeddings and on every sub-layer's output
  double dropout_attention = 0;  // on attention weights
  double dropout_ffn = 0;        // on the inner layer's activations
  bool target_trees = false;     // a parser: the target is trees as tokens (section 6.3)
  int source_vocabulary = 0, target_vocabulary = 0;  // entries
  int eos = 0;                                       // id of </s> on the target side
  int source_eos = 0;                                // and on the source side

  int d_k() const { return dim_key > 0 ? dim_key : dim_emb / heads; }
  int d_v() const { return dim_value > 0 ? dim_value : dim_emb / heads; }
  int keys() const { return heads * d_k(); }    // width of all heads' queries, and of their keys
  int values() const { return heads * d_v(); }  // width of all heads' values
  int64_t longest() const { return train_positions ? max_positions : INT64_MAX; }  // sentence, in tokens with </s>

  // The options of the architecture (without what follows from the vocabularies).
  void declare(Options& options);
  // Throws UserError for sizes that do not fit together.
  void validate() const;
  // Throws UserError for what is computed on the CPU only.
  void validate_for_devices() const;

  bool operator==(const ModelConfig&) const = default;
  // What gives parameters another place or meaning in the other one, anything but dropout: "OPTION is THIS, not OTHER",
  // or empty.
  std::string difference(const ModelConfig& other) const;

  std::string to_json() const;
  // Throws UserError naming `file` where a key is missing or has a wrong value.
  static ModelConfig from_json(const std::string& json, const std::string& file);
};

}  // namespace nmt
