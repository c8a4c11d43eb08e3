#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decode/beam.h"
#include "graph/runtime.h"
#include "nn/transformer.h"

namespace nmt {

// One model that scores translations. Several make an ensemble: the mean of their log-probabilities by weight.
struct Scorer {
  const Transformer* transformer;
  Parameters* parameters;
  double weight = 1;  // positive
};

// A source and its translation as ids, both with </s>.
struct IdPair {
  std::vector<int32_t> source, target;
};

// Translates and scores batches of sentences. What comes out for a sentence does not depend on the others in its batch
// (up to the rounding of matrix products). The runtime may be shared; whoever changes parameters says so to it.
class Decoder {
 public:
  // The models (at least one) have the same target vocabulary and are alive as long as the decoder, as is the runtime.
  Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options);
  ~Decoder();

  const SearchOptions& options() const { return options_; }

  // For each source (ids with </s>): the best translations, best first; one, or with n-best as many as the beam has.
  // Throws Error where a model gives a probability that is not a number.
  std::vector<std::vector<Hypothesis>> translate(std::span<const std::vector<int32_t>> sources);

  // For each pair: log p (natural logarithm) of each target token, </s> included: as many as its target has ids. For an
  // ensemble the weighted mean of the models' log p.
  std::vector<std::vector<float>> score(std::span<const IdPair> pairs);

 private:
  class Member;  // a model of the ensemble
  struct Sentences;

  void find_best(const Sentences& batch, int k, std::vector<float>& log_probabilities, std::vector<int32_t>& ids);

  std::vector<std::unique_ptr<Member>> members_;
  Runtime& runtime_;
  SearchOptions options_;
};

}  // namespace nmt
