#pragma once

#include <functional>
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

// How much is worked on together; no result depends on it.
struct SearchLimits {
  int64_t sentences = 64;
  int64_t words = 4000;  // source tokens; a longer sentence is alone
};

// Translates and scores sentences, several at a time. What comes out for a sentence does not depend on the others (up
// to the rounding of matrix products). The runtime may be shared; whoever changes parameters says so to it.
class Decoder {
 public:
  // The models (at least one) have the same target vocabulary and are alive as long as the decoder, as is the runtime.
  Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options);
  ~Decoder();

  const SearchOptions& options() const { return options_; }
  Runtime& runtime() { return runtime_; }

  // For each source (ids with </s>), as soon as it is translated: done(its index, its best translations, best first;
  // one, or with n-best as many as the beam has). Sources are begun in the given order, the next ones where others have
  // ended; memory is used best if they come by falling length. Throws Error where a model gives a probability that is
  // not a number.
  using Done = std::function<void(size_t index, std::vector<Hypothesis> best)>;
  void translate(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits, const Done& done);

  // For each pair: log p (natural logarithm) of each target token, </s> included: as many as its target has ids. For an
  // ensemble the weighted mean of the models' log p.
  std::vector<std::vector<float>> score(std::span<const IdPair> pairs);

 private:
  class Member;  // a model of the ensemble
  class Sentences;

  void find_best(const Sentences& batch, int k, std::vector<float>& log_probabilities, std::vector<int32_t>& ids);

  std::vector<std::unique_ptr<Member>> members_;
  Runtime& runtime_;
  SearchOptions options_;
};

}  // namespace nmt
