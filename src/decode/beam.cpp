#include "decode/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

Beam::Beam(const SearchOptions& options, int64_t limit, int32_t eos)
    : options_(options),
      limit_(limit),
      eos_(eos),
      wanted_(options.n_best ? static_cast<size_t>(options.beam) : 1),
      last_penalty_(options.penalty(limit)) {
  check(limit >= 1, "a search of {} steps", limit);
  live_.push_back({{}, 0, 0});
}

void Beam::advance(std::span<const float> log_probabilities, std::span<const int32_t> ids, int k) {
  struct Candidate {
    double log_probability;
    int32_t parent, token;
  };
  const size_t each = static_cast<size_t>(k);
  check(log_probabilities.size() == live_.size() * each && ids.size() == log_probabilities.size(),
        "{} candidates for {} hypotheses", log_probabilities.size(), live_.size());
  std::vector<Candidate> candidates;
  candidates.reserve(ids.size());
  for (size_t h = 0; h < live_.size(); ++h)
    for (size_t i = h * each; i < (h + 1) * each; ++i) {
      if (std::isnan(log_probabilities[i]))
        fail("the model gives a probability that is not a number: its weights are too large or damaged");
      if (log_probabilities[i] == -std::numeric_limits<float>::infinity()) continue;  // impossible
      candidates.push_back({live_[h].log_probability + log_probabilities[i], static_cast<int32_t>(h), ids[i]});
    }
  if (candidates.empty()) fail("the model gives every token the probability 0: its weights are too large or damaged");
  const auto before = [&](const Candidate& a, const Candidate& b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    if (a.parent != b.parent)
      return live_[static_cast<size_t>(a.parent)].ids < live_[static_cast<size_t>(b.parent)].ids;
    return a.token < b.token;
  };
  const auto beam = static_cast<size_t>(options_.beam);
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(std::min(2 * beam, candidates.size()));
  std::partial_sort(candidates.begin(), end, candidates.end(), before);
  candidates.erase(end, candidates.end());

  const auto extended = [&](const Candidate& c) {
    auto text = live_[static_cast<size_t>(c.parent)].ids;
    text.push_back(c.token);
    return text;
  };
  for (size_t i = 0; i < std::min(beam, candidates.size()); ++i)
    if (const Candidate& c = candidates[i]; c.token == eos_) finish(extended(c), c.log_probability);

  std::vector<Live> next;
  for (const Candidate& c : candidates) {
    const bool hopeless = finished_.size() == wanted_ && c.log_probability / last_penalty_ < finished_.back().score;
    if (hopeless || next.size() == beam) break;
    if (c.token != eos_) next.push_back({extended(c), c.log_probability, c.parent});
  }
  live_ = std::move(next);

  if (++steps_ < limit_) return;
  if (finished_.empty())
    for (auto& hypothesis : live_) finish(std::move(hypothesis.ids), hypothesis.log_probability);
  live_.clear();
}

void Beam::finish(std::vector<int32_t> ids, double log_probability) {
  Finished made{log_probability / options_.penalty(static_cast<int64_t>(ids.size())), log_probability, std::move(ids)};
  const auto before = [](const Finished& a, const Finished& b) {
    return a.score != b.score ? a.score > b.score : a.ids < b.ids;
  };
  finished_.insert(std::ranges::upper_bound(finished_, made, before), std::move(made));
  if (finished_.size() > wanted_) finished_.pop_back();
}

std::vector<Hypothesis> Beam::best() const {
  std::vector<Hypothesis> result;
  for (const Finished& f : finished_) {
    result.push_back({f.ids, f.log_probability, f.score});
    if (result.back().ids.back() == eos_) result.back().ids.pop_back();
  }
  return result;
}

}  // namespace nmt
