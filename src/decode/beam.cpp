#include "decode/beam.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace nmt {

void SearchOptions::declare(Options& o) {
  o.group("Search");
  o.add("beam-size", beam, "Hypotheses kept for each sentence").short_name('b').range(1, 100).automatic();
  o.add("alpha", alpha, "Length penalty of GNMT: log P is divided by ((5 + length) / 6)^alpha")
      .range(0, 10)
      .automatic();
  o.add("normalize", normalize, "Divide log P by length^P instead; 0: GNMT's penalty").range(0, 10);
  o.add("max-length-extra", max_extra, "A translation has at most so many tokens more than its source")
      .range(1, 1e6)
      .automatic();
}

double SearchOptions::penalty(int64_t length) const {
  const auto n = static_cast<double>(length);
  return normalize > 0 ? std::pow(n, normalize) : std::pow((5 + n) / 6, alpha);
}

std::vector<double> SearchOptions::penalties(int64_t longest) const {
  std::vector<double> all;
  for (int64_t length = 0; length <= longest; ++length) all.push_back(penalty(length));
  return all;
}

void check_status(BeamStatus status) {
  if (status == BeamStatus::kNotANumber)
    fail("the model gives a probability that is not a number: its weights are too large or damaged");
  if (status == BeamStatus::kImpossible)
    fail("the model gives every token the probability 0: its weights are too large or damaged");
}

Beam::Beam(const SearchOptions& options, int64_t limit, int32_t eos)
    : rule_(options.rule(eos)),
      progress_{.limit = static_cast<int32_t>(limit), .first_slot = 0},
      penalties_(options.penalties(limit)),
      live_(static_cast<size_t>(rule_.beam)),
      finished_(static_cast<size_t>(rule_.wanted)) {
  check(limit >= 1, "a search of {} steps", limit);
}

BeamToken Beam::last(int32_t live) const {
  if (progress_.steps == 0) return {-1, 0};
  return history_[static_cast<size_t>((progress_.steps - 1) * rule_.beam + live)];
}

std::vector<int32_t> Beam::ids(int32_t live) const {
  std::vector<int32_t> ids(static_cast<size_t>(progress_.steps));
  trace_tokens(rule_, history_.data(), progress_.steps, live, ids.data());
  return ids;
}

void Beam::advance(std::span<const float> log_probabilities, std::span<const int32_t> ids, int k) {
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
                             .history = history_.data(),
                             .penalties = penalties_.data(),
                             .candidates = candidates.data(),
                             .next = next.data()},
                            log_probabilities.data(), ids.data(), nullptr, k));
}

std::vector<Hypothesis> Beam::best() const {
  std::vector<Hypothesis> result;
  for (int32_t i = 0; i < progress_.finished; ++i) {
    const FinishedHypothesis& f = finished_[static_cast<size_t>(i)];
    std::vector<int32_t> ids(static_cast<size_t>(f.tokens));
    trace_tokens(rule_, history_.data(), f.tokens, f.last, ids.data());
    result.push_back({std::move(ids), f.log_probability, f.score});
  }
  return result;
}

}  // namespace nmt
