#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/beam.h"

// How a device keeps the searches of many sentences, and goes a step on with each.
namespace nmt {

inline constexpr int32_t kPageSteps = 16;

// The searches of several sentences, side by side where they compute; arrays of 32-bit words, in which numbers of 64
// bits lie at even places. Sentence s has the rows [s * beam, (s + 1) * beam) of each step, a hypothesis a row; those
// beyond its live ones see and write nothing. What a step writes, a token and keys and values, lies in slots: the steps
// of a sentence have pages, of kPageSteps * beam slots each.
struct BeamBatch {
  BeamRule rule;
  int64_t sentences, stride;  // stride: columns of tables by step
  int32_t* beams;             // [sentences, state_words]
  BeamToken* history;         // by slot
  const int32_t* pages;       // [sentences, stride / kPageSteps]; nobody reads those beyond a sentence's steps

  NMT_ON_DEVICE_TOO static constexpr int64_t state_words(const BeamRule& rule) {
    return static_cast<int64_t>(sizeof(BeamProgress) + static_cast<size_t>(rule.beam) * sizeof(LiveHypothesis) +
                                static_cast<size_t>(rule.wanted) * sizeof(FinishedHypothesis)) /
           4;
  }
  NMT_ON_DEVICE_TOO static BeamProgress* progress(const BeamRule& rule, int32_t* beams, int64_t sentence) {
    return reinterpret_cast<BeamProgress*>(beams + sentence * state_words(rule));
  }
  NMT_ON_DEVICE_TOO BeamProgress* progress(int64_t sentence) const { return progress(rule, beams, sentence); }
  NMT_ON_DEVICE_TOO LiveHypothesis* live(int64_t sentence) const {
    return reinterpret_cast<LiveHypothesis*>(progress(sentence) + 1);
  }
  NMT_ON_DEVICE_TOO FinishedHypothesis* finished(int64_t sentence) const {
    return reinterpret_cast<FinishedHypothesis*>(live(sentence) + rule.beam);
  }
  NMT_ON_DEVICE_TOO int32_t slot(int64_t sentence, int32_t step, int32_t place) const {
    const int32_t page = pages[sentence * (stride / kPageSteps) + step / kPageSteps];
    return (page * kPageSteps + step % kPageSteps) * rule.beam + place;
  }
  NMT_ON_DEVICE_TOO BeamToken token(int64_t sentence, int32_t step, int32_t place) const {
    return history[slot(sentence, step, place)];
  }
};

// What the rows of the next step are told; see Transformer::StepRows.
struct BeamRows {
  int32_t *ids, *positions, *slot, *length, *entry;  // entry: [rows, stride]
};
NMT_ON_DEVICE_TOO inline void make_beam_row(const BeamBatch& batch, const BeamRows& rows, int64_t row) {
  const int64_t sentence = row / batch.rule.beam;
  const auto place = static_cast<int32_t>(row % batch.rule.beam);
  const BeamProgress& progress = *batch.progress(sentence);
  const bool live = place < progress.live;
  rows.ids[row] = -1;
  rows.positions[row] = live ? progress.steps : 0;
  rows.length[row] = live ? progress.steps + 1 : 0;
  rows.slot[row] = live ? batch.slot(sentence, progress.steps, place) : -1;
  if (!live) return;
  int32_t* entry = rows.entry + row * batch.stride;
  entry[progress.steps] = rows.slot[row];
  const auto made = [&](int32_t step, int32_t at) { return batch.token(sentence, step, at); };
  trace_tokens(progress.steps, place, made, [&](int32_t step, const BeamToken& token) {
    entry[step] = batch.slot(sentence, step, token.parent);
    if (step == progress.steps - 1) rows.ids[row] = token.id;
  });
}

// What a step has found, and what it tells of each sentence, [sentences, report_words]: the status, and where the
// search has ended, how many hypotheses are its result, and these, each with its tokens.
struct BeamStep {
  int64_t k;
  const float* log_probabilities;  // [rows, k]
  const int32_t* ids;
  const int32_t* names;
  const double* penalties;  // [stride + 1], by number of tokens
  int32_t* report;

  NMT_ON_DEVICE_TOO static int64_t finished_words(int64_t stride) {
    return static_cast<int64_t>(sizeof(FinishedHypothesis)) / 4 + stride;
  }
  NMT_ON_DEVICE_TOO static int64_t report_words(const BeamRule& rule, int64_t stride) {
    return 2 + rule.wanted * finished_words(stride);
  }
  template <class Word>
  NMT_ON_DEVICE_TOO static auto finished(Word* report, int64_t stride, int64_t i) {
    using Finished = std::conditional_t<std::is_const_v<Word>, const FinishedHypothesis, FinishedHypothesis>;
    return reinterpret_cast<Finished*>(report + 2 + i * finished_words(stride));
  }
  // Its tokens stand behind it.
  NMT_ON_DEVICE_TOO static int32_t* tokens(FinishedHypothesis* f) { return reinterpret_cast<int32_t*>(f + 1); }
  NMT_ON_DEVICE_TOO static const int32_t* tokens(const FinishedHypothesis* f) {
    return reinterpret_cast<const int32_t*>(f + 1);
  }
};
// The step of one sentence: its status and the number of its result. Then report_finished each of these, in any order.
NMT_ON_DEVICE_TOO inline void advance_sentence(const BeamBatch& batch, const BeamStep& step, int64_t sentence,
                                               BeamCandidate* candidates, int32_t* next) {
  const BeamRule& rule = batch.rule;
  BeamProgress* progress = batch.progress(sentence);
  int32_t* report = step.report + sentence * BeamStep::report_words(rule, batch.stride);
  report[0] = static_cast<int32_t>(BeamStatus::kGoesOn);
  report[1] = 0;
  if (progress->live == 0) return;  // it was told before

  const int64_t first = sentence * rule.beam * step.k;
  BeamToken* made = batch.history + batch.slot(sentence, progress->steps, 0);
  const BeamStatus status =
      advance_beam(rule, {progress, batch.live(sentence), batch.finished(sentence), made, candidates, next},
                   step.log_probabilities + first, step.ids + first, step.names, static_cast<int32_t>(step.k),
                   step.penalties[progress->steps + 1]);
  report[0] = static_cast<int32_t>(status);
  if (status != BeamStatus::kGoesOn) progress->live = 0;  // an error is told once, too
  if (status == BeamStatus::kEnded) report[1] = progress->finished;
}
NMT_ON_DEVICE_TOO inline void report_finished(const BeamBatch& batch, const BeamStep& step, int64_t sentence,
                                              int32_t i) {
  int32_t* report = step.report + sentence * BeamStep::report_words(batch.rule, batch.stride);
  FinishedHypothesis* f = BeamStep::finished(report, batch.stride, i);
  *f = batch.finished(sentence)[i];
  int32_t* tokens = BeamStep::tokens(f);
  trace_tokens(
      f->tokens, f->place, [&](int32_t t, int32_t at) { return batch.token(sentence, t, at); },
      [&](int32_t t, const BeamToken& token) { tokens[t] = token.id; });
  for (int64_t t = f->tokens; t < batch.stride; ++t) tokens[t] = 0;
}

}  // namespace nmt
