#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/options.h"
#include "tensor/beam.h"

namespace nmt {

class TreeGrammar;

// How translations are searched and ranked. Defaults: section 6.1 of "Attention Is All You Need".
struct SearchOptions {
  int beam = 4;
  double alpha = 0.6;
  double normalize = 0;
  int max_extra = 50;  // a translation, with its </s>, has at most so many tokens more than its source without
  int shortest = 1;    // and at least so many without it, but where nothing else is possible
  bool n_best = false;
  static constexpr double kMostBeam = 100, kMostAlpha = 10;  // that options take
  const TreeGrammar* trees = nullptr;  // translations are trees of their sources' words; null: they are anything
  int32_t forbidden = -1;              // a token that translations do not have; -1: they may have any
  int sampling = 0;                    // positive: draw each token from so many, in place of a search
  uint64_t seed = 1;                   // of what is drawn
  static constexpr int kMostSampling = 200;

  void declare(Options& options);
  void declare_beam(Options& options);  // --beam-size and --alpha alone
  // Section 6.3's, by which sentences are parsed; `trees` is to be set.
  static SearchOptions parsing() { return {.beam = 21, .alpha = 0.3, .max_extra = 300}; }

  // What log P is divided by, positive and never less for a longer one; `length` counts </s>. GNMT's ((5 + length) /
  // 6)^alpha (Wu et al. 2016, equation 14), or length^normalize where that is positive.
  double penalty(int64_t length) const;
  BeamRule rule(int32_t eos) const { return {beam, n_best ? beam : 1, eos, forbidden, sampling, seed, shortest}; }
  // How many best tokens of each hypothesis a step needs: one more where one is forbidden, or one is drawn and is not
  // the end. (A search has enough: of 2 * beam tokens at least `beam` are not the end.)
  int candidates() const {
    return (sampling > 0 ? sampling + (shortest > 0 ? 1 : 0) : 2 * beam) + (forbidden < 0 ? 0 : 1);
  }
};

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

// Throws Error where a step could not go on.
void check_status(BeamStatus status);

}  // namespace nmt
