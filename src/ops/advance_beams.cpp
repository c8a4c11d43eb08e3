#include "ops/advance_beams.h"

#include "base/error.h"
#include "graph/runtime.h"

namespace nmt {

Expr advance_beams(const BeamRule& rule, Expr best, Expr ids, const BeamStates& s, Expr penalties, Expr names) {
  std::vector<Expr> inputs = {best, ids, s.ids, s.positions, s.slot, s.length, s.entry, s.beams, s.history, penalties};
  if (names) inputs.push_back(names);
  return best.graph().append(AdvanceBeams{rule}, inputs);
}

std::vector<Spec> AdvanceBeams::infer(std::span<const Spec> in) const {
  const Shape &found = in[0].shape, &entry = in[6].shape;
  const int64_t sentences = in[7].shape.rank() == 2 ? in[7].shape[0] : 0, rows = sentences * rule.beam;
  bool good = found.rank() == 2 && found[0] == rows && in[1].shape == found && entry.rank() == 2 && entry[0] == rows &&
              in[7].shape == Shape{sentences, BeamBatch::state_words(rule)} && in[8].shape.rank() == 2 &&
              in[8].shape[1] == 2 && in[9].dtype == DType::kF64 && in[0].dtype == DType::kF32;
  for (size_t i = 2; i < 6; ++i) good = good && in[i].shape == Shape{rows};
  for (size_t i = 1; i < in.size(); ++i) good = good && (i == 9 || in[i].dtype == DType::kI32);
  check(good, "{}: {} for beams of {}, {} in all, entries {}", kName, found.str(), rule.beam, in[7].shape.str(),
        entry.str());
  return {{{sentences, BeamBatch::report_words(rule, entry[1])}, DType::kI32}};
}

BeamBatch AdvanceBeams::batch(const Launch& l) const {
  return {.rule = rule,
          .sentences = l.in[7].shape()[0],
          .k = l.in[0].shape()[1],
          .stride = l.in[6].shape()[1],
          .log_probabilities = l.in[0].as<float>(),
          .found = l.in[1].as<int32_t>(),
          .names = l.in.size() > 10 ? l.in[10].as<int32_t>() : nullptr,
          .ids = l.in[2].as<int32_t>(),
          .positions = l.in[3].as<int32_t>(),
          .slot = l.in[4].as<int32_t>(),
          .entry = l.in[6].as<int32_t>(),
          .length = l.in[5].as<int32_t>(),
          .beams = l.in[7].as<int32_t>(),
          .history = reinterpret_cast<BeamToken*>(l.in[8].data),
          .penalties = l.in[9].as<double>(),
          .report = l.out[0].as<int32_t>()};
}

void AdvanceBeams::cpu(const Launch& l) const {
  const BeamBatch b = batch(l);
  const auto beam = static_cast<size_t>(rule.beam);
  l.runtime.pool().parallel_for(b.sentences, 16, [&](int64_t begin, int64_t end) {
    std::vector<BeamCandidate> candidates(2 * beam);
    std::vector<int32_t> room(beam);
    for (int64_t s = begin; s < end; ++s) {
      advance_sentence(b, s, candidates.data(), room.data());
      const int32_t steps = BeamBatch::progress(rule, b.beams, s)->steps;
      for (int32_t i = 0; i < steps; ++i) move_entries(b, s, i, room.data(), 1);
      for (int32_t h = 0; h < rule.beam; ++h) make_row(b, s, h);
    }
  });
}

}  // namespace nmt
