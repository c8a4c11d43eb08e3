#include "decode/beam.h"

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

double SearchOptions::penalty(int64_t length) const {
  const auto n = static_cast<double>(length);
  return normalize > 0 ? std::pow(n, normalize) : std::pow((5 + n) / 6, alpha);
}

void check_status(BeamStatus status) {
  if (status == BeamStatus::kNotANumber)
    fail("the model gives a probability that is not a number: its weights are too large or damaged");
  if (status == BeamStatus::kImpossible)
    fail("the model gives every token the probability 0: its weights are too large or damaged");
}

Beam::Beam(const SearchOptions& options, int64_t limit, int32_t eos, uint64_t key)
    : options_(options),
      rule_(options.rule(eos)),
      progress_{.last_penalty = options.penalty(limit), .key = key, .limit = static_cast<int32_t>(limit)},
      live_(static_cast<size_t>(rule_.beam)),
      finished_(static_cast<size_t>(rule_.wanted)) {}

BeamToken Beam::last(int32_t live) const {
  return progress_.steps == 0 ? BeamToken{-1, 0} : made(progress_.steps - 1, live);
}

std::vector<int32_t> Beam::tokens(int32_t steps, int32_t place) const {
  std::vector<int32_t> ids(static_cast<size_t>(steps));
  trace_tokens(
      steps, place, [&](int32_t step, int32_t at) { return made(step, at); },
      [&](int32_t step, const BeamToken& token) { ids[static_cast<size_t>(step)] = token.id; });
  return ids;
}

void Beam::advance(std::span<const float> log_probabilities, std::span<const int32_t> ids, int k,
                   const int32_t* names) {
  check(std::ssize(log_probabilities) == progress_.live * k && ids.size() == log_probabilities.size(),
        "{} candidates for {} hypotheses", log_probabilities.size(), progress_.live);
  const auto beam = static_cast<size_t>(rule_.beam);
  thread_local std::vector<BeamCandidate> candidates;
  thread_local std::vector<int32_t> next;
  candidates.resize(2 * beam);
  next.resize(beam);
  history_.resize(history_.size() + beam);
  check_status(advance_beam(rule_,
                            {.progress = &progress_,
                             .live = live_.data(),
                             .finished = finished_.data(),
                             .made = history_.data() + history_.size() - beam,
                             .candidates = candidates.data(),
                             .next = next.data()},
                            log_probabilities.data(), ids.data(), names, k, options_.penalty(progress_.steps + 1)));
}

std::vector<Hypothesis> Beam::best() const {
  std::vector<Hypothesis> result;
  for (int32_t i = 0; i < progress_.finished; ++i) {
    const FinishedHypothesis& f = finished_[static_cast<size_t>(i)];
    result.push_back({tokens(f.tokens, f.place), f.log_probability, f.score});
  }
  return result;
}

}  // namespace nmt
