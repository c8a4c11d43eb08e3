#pragma once

#include <memory>

#include "base/philox.h"
#include "decode/decoder.h"
#include "nn/model.h"

// A small random model, its weights larger than a trained one's at the start, so that its predictions are far from
// uniform, and everything to decode with it.
struct TestModel {
  static nmt::ModelConfig config(int vocabulary) {
    nmt::ModelConfig c;
    c.dim_emb = 16;
    c.dim_ffn = 24;
    c.heads = 2;
    c.dim_key = 7;
    c.dim_value = 5;
    c.enc_depth = c.dec_depth = 2;
    c.source_vocabulary = c.target_vocabulary = vocabulary;
    c.eos = c.source_eos = 1;
    c.tied_embeddings_all = c.tied_embeddings = false;
    return c;
  }

  explicit TestModel(uint64_t seed, int vocabulary = 12,
                     const std::shared_ptr<nmt::Backend>& backend = nmt::host_backend())
      : TestModel(seed, config(vocabulary), backend) {}

  TestModel(uint64_t seed, const nmt::ModelConfig& config,
            const std::shared_ptr<nmt::Backend>& backend = nmt::host_backend())
      : model(config) {
    model.parameters.allocate(false, backend);
    model.transformer.initialise(model.parameters, seed, false);
    for (const auto& e : model.parameters.entries())
      if (e.shape.rank() == 2)
        for (float& x : model.parameters.values(e)) x *= 2;
    model.parameters.value_buffer().upload();
  }

  nmt::Scorer scorer(double weight = 1) { return {&model.transformer, &model.parameters, weight}; }

  nmt::Model model;
};

// <unk> is 0, </s> is 1, the first of these words is 2, and so on.
inline std::shared_ptr<const nmt::Vocab> vocab_of(const std::vector<std::string>& words) {
  std::string bytes =
      fmt::format("#nmt-words 1 words={} merges=0 join=0 lowercase=0 attached=0\n<unk>\n</s>\n", words.size() + 2);
  for (const auto& word : words) bytes += word + "\n";
  return nmt::Vocab::from_bytes(bytes, "words");
}

inline std::shared_ptr<const nmt::Vocab> word_vocab() {
  std::vector<std::string> words;
  for (int i = 2; i < 12; ++i) words.push_back(fmt::format("w{}", i));
  return vocab_of(words);
}

inline std::shared_ptr<const nmt::Vocab> tree_vocab() { return vocab_of({"(A", ")A", "(B", ")B", "XX"}); }

// Sentences of 1 to `longest` ids, and </s>.
inline std::vector<std::vector<int32_t>> random_sources(size_t count, uint64_t longest, uint64_t seed = 1) {
  nmt::Random random(seed);
  std::vector<std::vector<int32_t>> sources(count);
  for (auto& source : sources) {
    for (uint64_t n = 1 + random.below(longest); n > 0; --n)
      source.push_back(static_cast<int32_t>(2 + random.below(10)));
    source.push_back(1);
  }
  return sources;
}
