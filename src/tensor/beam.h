#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensor/on_device.h"

// A step of one sentence's beam search, in the words that every backend shares: a device goes on by itself, and the
// host need not wait for what a step has found.
namespace nmt {

struct BeamRule {
  int32_t beam;    // live hypotheses at most
  int32_t wanted;  // finished ones that are kept
  int32_t eos;
  bool operator==(const BeamRule&) const = default;
};

struct alignas(8) BeamProgress {
  int32_t limit;       // steps at most
  int32_t first_slot;  // see DeviceBeams
  int32_t steps = 0, live = 1, finished = 0;
};
struct LiveHypothesis {
  double log_probability = 0;
  int32_t rank = 0;  // among the live ones, by their ids
};
struct FinishedHypothesis {
  double score, log_probability;  // score: log_probability / penalty
  int32_t tokens;                 // without </s>
  int32_t last;                   // its place among the live ones that the step of the last of these has left
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
  BeamToken* history;            // [limit, beam]
  const double* penalties;       // [limit + 1]: by length with </s>, what log P is divided by; rising
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

// The search is defined in decode/beam.h. log_probabilities, ids: the k most probable tokens after each live
// hypothesis, [live, k], falling, equal ones by rising id; not possible are those of -infinity. names: null, or what
// the ids are numbers of. A row with a NaN begins with one.
NMT_ON_DEVICE_TOO inline BeamStatus advance_beam(const BeamRule& rule, const BeamParts& b,
                                                 const float* log_probabilities, const int32_t* ids,
                                                 const int32_t* names, int32_t k) {
  BeamProgress& progress = *b.progress;
  // The first candidates by log P, equal ones by their texts: of each live hypothesis the next is looked at.
  for (int32_t h = 0; h < progress.live; ++h) b.next[h] = 0;
  int32_t count = 0;
  while (count < 2 * rule.beam) {
    BeamCandidate best{0, -1, 0, 0};
    for (int32_t h = 0; h < progress.live; ++h) {
      if (b.next[h] == k) continue;
      const float p = log_probabilities[static_cast<int64_t>(h) * k + b.next[h]];
      if (std::isnan(p)) return BeamStatus::kNotANumber;
      if (p == -INFINITY) continue;
      const double sum = b.live[h].log_probability + static_cast<double>(p);
      const bool first =
          best.parent < 0 || sum > best.log_probability || (sum == best.log_probability && b.live[h].rank < best.rank);
      if (first) best = {sum, h, 0, b.live[h].rank};
    }
    if (best.parent < 0) break;
    best.id = ids[static_cast<int64_t>(best.parent) * k + b.next[best.parent]++];
    if (names != nullptr) best.id = names[best.id];
    b.candidates[count++] = best;
  }
  if (count == 0) return BeamStatus::kImpossible;

  const int32_t length = progress.steps + 1;
  for (int32_t i = 0; i < count && i < rule.beam; ++i)
    if (const BeamCandidate& c = b.candidates[i]; c.id == rule.eos)
      keep_finished(rule, b, {c.log_probability / b.penalties[length], c.log_probability, length - 1, c.parent});

  int32_t live = 0;
  for (int32_t i = 0; i < count && live < rule.beam; ++i) {
    const BeamCandidate c = b.candidates[i];
    const bool hopeless = progress.finished == rule.wanted &&
                          c.log_probability / b.penalties[progress.limit] < b.finished[rule.wanted - 1].score;
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
    b.history[static_cast<int64_t>(progress.steps) * rule.beam + i] = {c.id, c.parent};
  }
  progress.live = live;
  if (++progress.steps == progress.limit) {
    if (progress.finished == 0)
      for (int32_t i = 0; i < live; ++i) {
        const double sum = b.live[i].log_probability;
        keep_finished(rule, b, {sum / b.penalties[length], sum, length, i});
      }
    progress.live = 0;
  }
  return progress.live == 0 ? BeamStatus::kEnded : BeamStatus::kGoesOn;
}

// The tokens of the hypothesis that was at `place` after so many steps, as many.
NMT_ON_DEVICE_TOO inline void trace_tokens(const BeamRule& rule, const BeamToken* history, int32_t steps, int32_t place,
                                           int32_t* tokens) {
  while (steps-- > 0) {
    const BeamToken& token = history[static_cast<int64_t>(steps) * rule.beam + place];
    tokens[steps] = token.id;
    place = token.parent;
  }
}

// The searches of several sentences, side by side where they compute; arrays of 32-bit words, in which numbers of 64
// bits lie at even places. Sentence s has the rows [s * beam, (s + 1) * beam) of each step; what is beyond its live
// hypotheses are rows of nothing, which see only themselves. The row of hypothesis h in step t has the cache's and the
// history's row first_slot + t * beam + h.
struct BeamBatch {
  BeamRule rule;
  int64_t sentences, k, stride;  // stride: entries of a row
  const float* log_probabilities;
  const int32_t* found;
  const int32_t* names;
  int32_t *ids, *positions, *slot, *entry, *length;  // by row: of the next step; see Transformer::StepRows
  int32_t* beams;                                    // [sentences, state_words]
  BeamToken* history;
  const double* penalties;
  int32_t* report;  // [sentences, report_words]: what the step tells

  NMT_ON_DEVICE_TOO static int64_t state_words(const BeamRule& rule) {
    return static_cast<int64_t>(sizeof(BeamProgress) + static_cast<size_t>(rule.beam) * sizeof(LiveHypothesis) +
                                static_cast<size_t>(rule.wanted) * sizeof(FinishedHypothesis)) /
           4;
  }
  NMT_ON_DEVICE_TOO static BeamProgress* progress(const BeamRule& rule, int32_t* beams, int64_t sentence) {
    return reinterpret_cast<BeamProgress*>(beams + sentence * state_words(rule));
  }
  NMT_ON_DEVICE_TOO BeamParts parts(int64_t sentence, BeamCandidate* candidates, int32_t* next) const {
    BeamParts b{};
    b.progress = progress(rule, beams, sentence);
    b.live = reinterpret_cast<LiveHypothesis*>(b.progress + 1);
    b.finished = reinterpret_cast<FinishedHypothesis*>(b.live + rule.beam);
    b.history = history + b.progress->first_slot;
    b.penalties = penalties;
    b.candidates = candidates;
    b.next = next;
    return b;
  }

  // A report: the status, how many have finished, and where the search has ended, these: each and its tokens.
  NMT_ON_DEVICE_TOO static int64_t finished_words(int64_t stride) {
    return static_cast<int64_t>(sizeof(FinishedHypothesis)) / 4 + (stride + 1) / 2 * 2;
  }
  NMT_ON_DEVICE_TOO static int64_t report_words(const BeamRule& rule, int64_t stride) {
    return 2 + rule.wanted * finished_words(stride);
  }
  template <class Word>
  NMT_ON_DEVICE_TOO static auto finished(Word* report, int64_t stride, int64_t i) {
    using Finished = std::conditional_t<std::is_const_v<Word>, const FinishedHypothesis, FinishedHypothesis>;
    return reinterpret_cast<Finished*>(report + 2 + i * finished_words(stride));
  }
};

// A step of one sentence's search, first without its rows.
NMT_ON_DEVICE_TOO inline void advance_sentence(const BeamBatch& batch, int64_t sentence, BeamCandidate* candidates,
                                               int32_t* next) {
  const BeamParts b = batch.parts(sentence, candidates, next);
  int32_t* report = batch.report + sentence * BeamBatch::report_words(batch.rule, batch.stride);
  BeamStatus status = BeamStatus::kGoesOn;
  const int64_t first = sentence * batch.rule.beam * batch.k;
  if (b.progress->live > 0)  // else it was told before
    status = advance_beam(batch.rule, b, batch.log_probabilities + first, batch.found + first, batch.names,
                          static_cast<int32_t>(batch.k));
  const bool ended = status == BeamStatus::kEnded;
  if (status != BeamStatus::kGoesOn) b.progress->live = 0;
  report[0] = static_cast<int32_t>(status);
  report[1] = ended ? b.progress->finished : 0;
  for (int32_t i = 0; i < report[1]; ++i) {
    FinishedHypothesis* f = BeamBatch::finished(report, batch.stride, i);
    *f = b.finished[i];
    trace_tokens(batch.rule, b.history, f->tokens, f->last, reinterpret_cast<int32_t*>(f + 1));
  }
}

// Then entry `i` of its rows, those of the steps before; room: [beam].
NMT_ON_DEVICE_TOO inline void move_entries(const BeamBatch& batch, int64_t sentence, int64_t i, int32_t* room,
                                           int64_t room_stride) {
  const BeamProgress& progress = *BeamBatch::progress(batch.rule, batch.beams, sentence);
  const BeamToken* made = batch.history + progress.first_slot + (progress.steps - 1) * batch.rule.beam;
  int32_t* entry = batch.entry + sentence * batch.rule.beam * batch.stride + i;
  for (int32_t h = 0; h < progress.live; ++h) room[h * room_stride] = entry[made[h].parent * batch.stride];
  for (int32_t h = 0; h < progress.live; ++h) entry[h * batch.stride] = room[h * room_stride];
}

// And at last row h.
NMT_ON_DEVICE_TOO inline void make_row(const BeamBatch& batch, int64_t sentence, int32_t h) {
  const BeamProgress& progress = *BeamBatch::progress(batch.rule, batch.beams, sentence);
  const bool live = h < progress.live;
  const int32_t steps = progress.steps, beam = batch.rule.beam;
  const int32_t step = steps < progress.limit ? steps : progress.limit - 1;
  const int64_t row = sentence * beam + h;
  batch.ids[row] = live && steps > 0 ? batch.history[progress.first_slot + (steps - 1) * beam + h].id : -1;
  batch.positions[row] = live ? steps : 0;
  batch.length[row] = live ? steps + 1 : 1;
  batch.slot[row] = progress.first_slot + step * beam + h;
  batch.entry[row * batch.stride + (live ? steps : 0)] = batch.slot[row];
}

}  // namespace nmt
