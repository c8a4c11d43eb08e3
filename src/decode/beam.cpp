#include "decode/beam.h"

namespace nmt {

void check_status(BeamStatus status) {
  if (status == BeamStatus::kNotANumber)
    throw BrokenModel("the model gives a probability that is not a number: its weights are too large or damaged");
  if (status == BeamStatus::kImpossible)
    throw BrokenModel("the model gives every token the probability 0: its weights are too large or damaged");
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
