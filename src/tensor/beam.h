#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "tensor/on_device.h"

// A step of one sentence's beam search, in the words that every backend shares: a device goes on by itself, and the
// host need not wait for what a step has found.
namespace nmt {

struct BeamRule {
  int32_t beam;    // live hypotheses at most
  int32_t wanted;  // finished ones that are kept
  int32_t eos;
  int32_t forbidden = -1;  // a token that no hypothesis may have
  int32_t sampling = 0;    // of so many most probable tokens one is drawn; 0: the most probable hypotheses go on
  uint64_t seed = 0;       // of what is drawn
  int32_t shortest = 0;    // tokens before a hypothesis may end
  bool operator==(const BeamRule&) const = default;

  // Whether a hypothesis of so many tokens may go on with this one.
  NMT_ON_DEVICE_TOO bool allows(int32_t id, int32_t tokens) const {
    return id != forbidden && (id != eos || tokens >= shortest);
  }
};

struct BeamProgress {
  double last_penalty;  // of `limit` tokens
  uint64_t key = 0;     // of the sentence: what is drawn for it depends on nothing else but the seed
  int32_t limit;        // steps at most
  int32_t steps = 0, live = 1, finished = 0;
};
struct LiveHypothesis {
  double log_probability = 0;
  int32_t rank = 0;  // among the live ones, by their ids
};
struct FinishedHypothesis {
  double score, log_probability;  // score: log_probability / penalty
  int32_t tokens;                 // how many, without </s>
  int32_t place;                  // its place among the live ones after so many steps
};
// What a step has left of a live hypothesis: its last token, and its place among the live ones of the step before.
struct BeamToken {
  int32_t id, parent;
};
struct BeamCandidate {
  double log_probability;
  int32_t parent, id, rank;  // rank: the parent's
};

enum class BeamStatus : int32_t { kGoesOn, kEnded, kNotANumber, kImpossible };

// Where the parts of a sentence's search lie.
struct BeamParts {
  BeamProgress* progress;
  LiveHypothesis* live;          // [beam]
  FinishedHypothesis* finished;  // [wanted], best first; of equal scores the one first that was finished first
  BeamToken* made;               // [beam]: what the step leaves
  BeamCandidate* candidates;     // [2 * beam] of working memory
  int32_t* next;                 // [beam] of the same
};

NMT_ON_DEVICE_TOO inline void keep_finished(const BeamRule& rule, const BeamParts& b, const FinishedHypothesis& made) {
  int32_t& count = b.progress->finished;
  if (count < rule.wanted)
    ++count;
  else if (made.score <= b.finished[count - 1].score)
    return;
  int32_t place = count - 1;
  for (; place > 0 && b.finished[place - 1].score < made.score; --place) b.finished[place] = b.finished[place - 1];
  b.finished[place] = made;
}

// What a step has found: see advance_beam.
struct BestTokensOfRows {
  const float* log_probabilities;  // [live, k]
  const int32_t *ids, *names;
  int32_t k;

  NMT_ON_DEVICE_TOO float log_probability(int32_t live, int32_t i) const {
    return log_probabilities[static_cast<int64_t>(live) * k + i];
  }
  NMT_ON_DEVICE_TOO int32_t id(int32_t live, int32_t i) const {
    const int32_t id = ids[static_cast<int64_t>(live) * k + i];
    return names == nullptr ? id : names[id];
  }
};

// The first candidates by log P, equal ones by their texts: of each live hypothesis the next is looked at. Returns how
// many there are, -1 for NaN.
NMT_ON_DEVICE_TOO inline int32_t first_candidates(const BeamRule& rule, const BeamParts& b,
                                                  const BestTokensOfRows& best) {
  const int32_t live = b.progress->live;
  for (int32_t h = 0; h < live; ++h) b.next[h] = 0;
  int32_t count = 0;
  while (count < 2 * rule.beam) {
    BeamCandidate first{0, -1, 0, 0};
    for (int32_t h = 0; h < live; ++h) {
      if (b.next[h] == best.k) continue;
      const float p = best.log_probability(h, b.next[h]);
      if (std::isnan(p)) return -1;
      if (p == -INFINITY) continue;
      const double sum = b.live[h].log_probability + static_cast<double>(p);
      if (first.parent < 0 || sum > first.log_probability ||
          (sum == first.log_probability && b.live[h].rank < first.rank))
        first = {sum, h, 0, b.live[h].rank};
    }
    if (first.parent < 0) break;
    first.id = best.id(first.parent, b.next[first.parent]++);
    if (rule.allows(first.id, b.progress->steps)) b.candidates[count++] = first;
  }
  return count;
}

// One candidate of each live hypothesis, of the empty one as many as the beam has: by the probabilities of the first
// rule.sampling tokens that are allowed. Returns how many there are, -1 for NaN.
NMT_ON_DEVICE_TOO inline int32_t drawn_candidates(const BeamRule& rule, const BeamParts& b,
                                                  const BestTokensOfRows& best) {
  const BeamProgress& progress = *b.progress;
  const bool empty = progress.steps == 0;
  int32_t count = 0;
  for (int32_t i = 0; i < (empty ? rule.beam : progress.live); ++i) {
    const int32_t h = empty ? 0 : i;
    if (std::isnan(best.log_probability(h, 0))) return -1;
    BeamRule allowed = rule;
    const auto first_allowed = [&] {
      int32_t j = 0;
      while (j < best.k && !(allowed.allows(best.id(h, j), progress.steps) && best.log_probability(h, j) > -INFINITY))
        ++j;
      return j;
    };
    int32_t first = first_allowed();
    if (first == best.k) {  // nothing is possible but the end
      allowed.shortest = 0;
      first = first_allowed();
    }
    if (first == best.k) continue;
    const float most = best.log_probability(h, first);
    // Calls visit(token, its probability over the largest) until it returns false.
    const auto each_token = [&](const auto& visit) {
      for (int32_t j = 0, left = rule.sampling; j < best.k && left > 0; ++j) {
        if (!allowed.allows(best.id(h, j), progress.steps)) continue;
        if (!visit(j, std::exp(static_cast<double>(best.log_probability(h, j)) - static_cast<double>(most)))) return;
        --left;
      }
    };
    double sum = 0;
    each_token([&](int32_t, double p) {
      sum += p;
      return true;
    });
    const auto words =
        Philox4x32::generate({static_cast<uint32_t>(progress.steps), static_cast<uint32_t>(i),
                              static_cast<uint32_t>(rule.seed), static_cast<uint32_t>(rule.seed >> 32)},
                             {static_cast<uint32_t>(progress.key), static_cast<uint32_t>(progress.key >> 32)});
    double left = sum * (static_cast<double>(words[0]) + 0.5) * 0x1.0p-32;
    int32_t drawn = -1;
    each_token([&](int32_t j, double p) {
      if (p > 0) drawn = j;
      left -= p;
      return left >= 0;
    });
    if (drawn >= 0)
      b.candidates[count++] = {b.live[h].log_probability + static_cast<double>(best.log_probability(h, drawn)), h,
                               best.id(h, drawn), b.live[h].rank};
  }
  return count;
}

// The search is defined in decode/beam.h. log_probabilities, ids: the k most probable tokens after each live
// hypothesis, [live, k], falling, equal ones by rising id; not possible are those of -infinity. names: null, or what
// the ids are numbers of. A row with a NaN begins with one. penalty: what log P of as many tokens as there are steps,
// this one included, is divided by.
NMT_ON_DEVICE_TOO inline BeamStatus advance_beam(const BeamRule& rule, const BeamParts& b,
                                                 const float* log_probabilities, const int32_t* ids,
                                                 const int32_t* names, int32_t k, double penalty) {
  BeamProgress& progress = *b.progress;
  const BestTokensOfRows best{log_probabilities, ids, names, k};
  int32_t count = rule.sampling > 0 ? drawn_candidates(rule, b, best) : first_candidates(rule, b, best);
  if (count == 0 && rule.sampling == 0) {  // nothing is possible but the end
    BeamRule ends = rule;
    ends.shortest = 0;
    count = first_candidates(ends, b, best);
  }
  if (count < 0) return BeamStatus::kNotANumber;
  if (count == 0) return BeamStatus::kImpossible;

  for (int32_t i = 0; i < count && i < rule.beam; ++i)
    if (const BeamCandidate& c = b.candidates[i]; c.id == rule.eos)
      keep_finished(rule, b, {c.log_probability / penalty, c.log_probability, progress.steps, c.parent});

  int32_t live = 0;
  for (int32_t i = 0; i < count && live < rule.beam; ++i) {
    const BeamCandidate c = b.candidates[i];
    const bool hopeless = rule.sampling == 0 && progress.finished == rule.wanted &&
                          c.log_probability / progress.last_penalty < b.finished[rule.wanted - 1].score;
    if (hopeless) break;
    if (c.id != rule.eos) b.candidates[live++] = c;
  }
  for (int32_t i = 0; i < live; ++i) {
    const BeamCandidate& c = b.candidates[i];
    int32_t rank = 0;
    for (int32_t j = 0; j < live; ++j) {
      const BeamCandidate& other = b.candidates[j];
      rank += other.rank < c.rank || (other.rank == c.rank && other.id < c.id);
    }
    b.live[i] = {c.log_probability, rank};
    b.made[i] = {c.id, c.parent};
  }
  progress.live = live;
  if (++progress.steps == progress.limit) {
    if (progress.finished == 0 || rule.sampling > 0)
      for (int32_t i = 0; i < live; ++i) {
        const double sum = b.live[i].log_probability;
        keep_finished(rule, b, {sum / penalty, sum, progress.steps, i});
      }
    progress.live = 0;
  }
  return progress.live == 0 ? BeamStatus::kEnded : BeamStatus::kGoesOn;
}

// Calls visit(step, token) for each token, the last first, of the hypothesis that is at `place` after so many steps;
// made(step, place): what that step has left there.
template <class Made, class Visit>
NMT_ON_DEVICE_TOO void trace_tokens(int32_t steps, int32_t place, const Made& made, const Visit& visit) {
  while (steps-- > 0) {
    const BeamToken token = made(steps, place);
    visit(steps, token);
    place = token.parent;
  }
}

}  // namespace nmt
