#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "decode/search_options.h"
#include "tensor/beam.h"

namespace nmt {

struct Hypothesis {
  std::vector<int32_t> ids;  // without </s>
  double log_probability;    // of all tokens, </s> included
  double score;              // log_probability / penalty
};

// The beam of one sentence. The live hypotheses start as the empty one. A candidate is a live hypothesis and one token
// more, not the forbidden one, nor </s> before there are `shortest` tokens, unless that is all. In each step, of the
// first `beam` candidates by log P, those that end in </s> are finished, and the first `beam` candidates that do not
// are the next live ones (of the first 2 * beam, no more than half can end). After `limit` steps it is over; if nothing
// was ever finished, the live ones are finished as they are. Candidates of equal log P are ordered by their ids; of
// finished ones with equal scores the one is first that was finished first.
//
// log P only falls and a penalty only grows, so what comes of a candidate scores at most log P / penalty(limit). One
// that can no longer enter the result is dropped at once. This changes no result: candidates behind it in the order are
// as hopeless as it is, so none of them gets its place.
//
// With options.sampling there is one candidate of each live hypothesis, of the empty one as many as the beam has, whose
// token is drawn by the probabilities of the first `sampling`; after `limit` steps those that have not ended are
// finished as they are, too, and none is dropped: `beam` translations, each drawn by itself (Edunov et al. 2018,
// "Understanding Back-Translation at Scale", section 3). What is drawn depends on the seed, the key and the place among
// the live hypotheses.
class Beam {
 public:
  Beam(const SearchOptions& options, int64_t limit, int32_t eos, uint64_t key = 0);  // limit: at least 1

  int32_t live() const { return progress_.live; }  // how many hypotheses; 0: the search is over
  BeamToken last(int32_t live) const;              // its last token, -1 where there is none
  std::vector<int32_t> ids(int32_t live) const { return tokens(progress_.steps, live); }

  // The k most probable tokens after each live hypothesis: [live, k], by falling log-probability and rising id.
  // k: candidates(), or all there are where these are fewer; -infinity: not possible. names: what the ids are numbers
  // of; rising. Throws Error for NaN, and where nothing is possible.
  void advance(std::span<const float> log_probabilities, std::span<const int32_t> ids, int k,
               const int32_t* names = nullptr);

  // The best `wanted` (n-best: `beam`, else one) by score, best first; fewer where fewer were finished.
  std::vector<Hypothesis> best() const;

 private:
  const BeamToken& made(int32_t step, int32_t place) const {
    return history_[static_cast<size_t>(step) * static_cast<size_t>(rule_.beam) + static_cast<size_t>(place)];
  }
  std::vector<int32_t> tokens(int32_t steps, int32_t place) const;

  const SearchOptions& options_;
  BeamRule rule_;
  BeamProgress progress_;
  std::vector<LiveHypothesis> live_;
  std::vector<FinishedHypothesis> finished_;
  std::vector<BeamToken> history_;  // [steps, beam]
};

// The model gives no probabilities: its weights are too large, or damaged.
class BrokenModel : public Error {
 public:
  using Error::Error;
};
// Throws BrokenModel where a step could not go on.
void check_status(BeamStatus status);

}  // namespace nmt
