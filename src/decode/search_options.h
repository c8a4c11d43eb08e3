#pragma once

#include <cstdint>

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
  void validate() const;                // UserError for options that contradict each other
  // Section 6.3's, by which sentences are parsed; `trees` is to be set.
  static SearchOptions parsing() { return {.beam = 21, .alpha = 0.3, .max_extra = 300}; }
  // After validate(): what was not given, or is no option there, becomes parsing()'s, as if it were given.
  void settle_for_parser(Options& declared);

  // What log P is divided by, positive and never less for a longer one; `length` counts </s>. GNMT's ((5 + length) /
  // 6)^alpha (Wu et al. 2016, equation 14), or length^normalize where that is positive.
  double penalty(int64_t length) const;
  BeamRule rule(int32_t eos) const {
    return {.beam = beam,
            .wanted = n_best ? beam : 1,
            .eos = eos,
            .forbidden = forbidden,
            .sampling = sampling,
            .seed = seed,
            .shortest = shortest};
  }
  // How many best tokens of each hypothesis a step needs: one more where one is forbidden, or one is drawn and is not
  // the end. (A search has enough: of 2 * beam tokens at least `beam` are not the end.)
  int candidates() const {
    return (sampling > 0 ? sampling + (shortest > 0 ? 1 : 0) : 2 * beam) + (forbidden < 0 ? 0 : 1);
  }
};

}  // namespace nmt
