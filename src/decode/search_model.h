#pragma once

#include <cstdint>
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

  // Gives the memory back; no sentence is under way.
  void release();

  // Remembers the sources that begin; source_rows: of all that are under way.
  void encode(const Sentences::Begun& begun, int64_t source_rows);

  // Of each row of a step the k best next tokens: see project_top_k. With a shortlist ids are numbers of the allowed.
  Expr best_tokens(Graph& graph, const Transformer::StepRows& rows, int64_t cache_rows, const Sentences& sentences,
                   int k);
  // The log-probability of every token, [rows, vocabulary], float32.
  Expr log_probabilities(Graph& graph, const Transformer::StepRows& rows, int64_t cache_rows,
                         const Sentences& sentences);
  float weight() const { return weight_; }

  // Adds weight * log p of each target token to sums.
  void add_scores(const PairInput& pairs, std::vector<float>& sums);

 private:
  struct Layer {
    Buffer source[2], past[2];
  };

  void grow(Buffer& memory, size_t bytes);
  Expr step(Leaves& leaves, const Transformer::StepRows& rows, int64_t cache_rows, const Sentences& sentences);
  Expr project_allowed(Expr state, Expr matrix, const Sentences& sentences, int k);

  const Transformer& transformer_;
  Parameters& parameters_;
  float weight_;
  Runtime& runtime_;
  std::vector<Layer> layers_;
  std::vector<int32_t> allowed_ids_;
  FloatBuffer allowed_rows_;  // of the output matrix
};

}  // namespace nmt
