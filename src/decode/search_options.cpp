#include "decode/search_options.h"

#include <cmath>

#include "base/error.h"

namespace nmt {

void SearchOptions::declare_beam(Options& o) {
  const SearchOptions of_parsers = parsing();
  o.add("beam-size", beam, fmt::format("Hypotheses kept for each sentence; parsers: {}", of_parsers.beam))
      .short_name('b')
      .range(1, kMostBeam)
      .automatic();
  o.add("alpha", alpha,
        fmt::format("Length penalty of GNMT: log P is divided by ((5 + length) / 6)^alpha; parsers: {}",
                    of_parsers.alpha))
      .range(0, kMostAlpha)
      .automatic();
}

void SearchOptions::declare(Options& o) {
  o.group("Search");
  declare_beam(o);
  o.add("normalize", normalize, "Divide log P by length^P instead; 0: GNMT's penalty").range(0, 10);
  o.add("max-length-extra", max_extra,
        fmt::format("A translation has at most so many tokens more than its source; parsers: {}", parsing().max_extra))
      .range(1, 1e6)
      .automatic();
  o.add(
       "min-length", shortest,
       "No translation ends before it has so many tokens, but for --max-length-extra; a line without words stays empty")
      .range(0, 1e6);
  o.add(
       "sampling", sampling,
       "Do not search: draw --beam-size translations (1 unless given) at random, each token from so many most probable "
       "ones by their probabilities; the best is written, or with --n-best all; 0: search")
      .range(0, kMostSampling);
  o.add("seed", seed, "Of --sampling: equal lines get equal translations from the same seed, up to rounding as below");
}

void SearchOptions::validate() const {
  require(normalize == 0 || alpha == SearchOptions().alpha,
          "--normalize replaces the penalty of --alpha: give one of them");
  require(sampling > 0 || seed == SearchOptions().seed, "--seed is of --sampling: leave it out");
}

void SearchOptions::settle_for_parser(Options& declared) {
  const SearchOptions of_parsers = parsing();
  const auto settle = [&](const char* name, auto& field, auto value) {
    Option* option = declared.find(name);
    if (option == nullptr)
      field = value;
    else if (!option->given())
      option->set({fmt::format("{}", value)});
  };
  settle("beam-size", beam, of_parsers.beam);
  settle("alpha", alpha, of_parsers.alpha);
  settle("max-length-extra", max_extra, of_parsers.max_extra);
}

double SearchOptions::penalty(int64_t length) const {
  const auto n = static_cast<double>(length);
  return normalize > 0 ? std::pow(n, normalize) : std::pow((5 + n) / 6, alpha);
}

}  // namespace nmt
