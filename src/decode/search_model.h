#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decode/sentences.h"
#include "graph/runtime.h"
#include "nn/transformer.h"

namespace nmt {

// One model that scores translations. Several make an ensemble: the mean of their log-probabilities by weight.
struct Scorer {
  const Transformer* transformer;
  Parameters* parameters;
  double weight = 1;  // positive
};

// A model of a search, with what it remembers of the sentences under way: keys and values of sources and hypotheses.
// The memory is kept for the next ones.
class SearchModel {
 public:
  // weight: its part of the mean.
  SearchModel(const Scorer& scorer, double weight, Runtime& runtime);
  ~SearchModel();
  SearchModel(const SearchModel&) = delete;
  SearchModel& operator=(const SearchModel&) = delete;

  const ModelConfig& config() const { return transformer_.config(); }

  // Remembers the sources that begin; source_rows: of all that are under way.
  void encode(const Sentences::Begun& begun, int64_t source_rows);

  // A step of all rows. Of each the k best next tokens, by falling log-probability: begun, and brought when it is done.
  void begin_best_tokens(const Sentences& batch, int k);
  void best_tokens(const Sentences& batch, std::vector<float>& log_probabilities, std::vector<int32_t>& ids);
  // Or weight * the log-probability of every token, added to sums [rows, vocabulary].
  void add_all(const Sentences& batch, std::vector<float>& sums);

  // Adds weight * log p of each target token to sums.
  void add_scores(const PairInput& pairs, std::vector<float>& sums);

 private:
  struct Layer {
    Buffer source, past[2];
  };

  void grow(Buffer& memory, size_t bytes);
  Expr step(Leaves& leaves, const Sentences& batch);
  Expr project_allowed(Expr state, Expr matrix, const Sentences& batch, int k);

  const Transformer& transformer_;
  Parameters& parameters_;
  float weight_;
  Runtime& runtime_;
  std::vector<Layer> layers_;
  std::vector<int32_t> allowed_ids_;
  FloatBuffer allowed_rows_;  // of the output matrix
  std::vector<Transformer::LayerCache> caches_;
  size_t found_ = 0;  // best tokens, of all rows
  std::unique_ptr<Message> log_probabilities_, ids_;
};

}  // namespace nmt
