#include "ops/beams.h"

#include "base/error.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

// Throws unless these are searches; returns how many steps they have room for.
int64_t check_beams(std::string_view op, const BeamRule& rule, std::span<const Spec> in) {
  const Shape &beams = in[0].shape, &pages = in[2].shape;
  check(beams.rank() == 2 && beams[1] == BeamBatch::state_words(rule) && in[1].shape == Shape{in[1].shape[0], 2} &&
            pages.rank() == 2 && pages[0] == beams[0] && in[0].dtype == DType::kI32 && in[1].dtype == DType::kI32 &&
            in[2].dtype == DType::kI32,
        "{}: beams {} of {} hypotheses, history {}, pages {}", op, beams, rule.beam, in[1].shape, pages);
  return pages[1] * kPageSteps;
}

}  // namespace

Expr beam_rows(const BeamRule& rule, Expr beams, Expr history, Expr pages) {
  return beams.graph().append(MakeBeamRows{rule}, {beams, history, pages});
}

Expr advance_beams(const BeamRule& rule, Expr beams, Expr history, Expr pages, Expr best, Expr ids, Expr penalties,
                   Expr names) {
  std::vector<Expr> inputs = {beams, history, pages, best, ids, penalties};
  if (names) inputs.push_back(names);
  return beams.graph().append(AdvanceBeams{rule}, inputs);
}

BeamBatch beam_batch(const BeamRule& rule, std::span<const Tensor> in) {
  return {.rule = rule,
          .sentences = in[0].shape()[0],
          .stride = in[2].shape()[1] * kPageSteps,
          .beams = in[0].as<int32_t>(),
          .history = in[1].as<BeamToken>(),
          .pages = in[2].as<int32_t>()};
}

std::vector<Spec> MakeBeamRows::infer(std::span<const Spec> in) const {
  const int64_t stride = check_beams(kName, rule, in), rows = in[0].shape[0] * rule.beam;
  const Spec row = {{rows}, DType::kI32};
  return {row, row, row, row, {{rows, stride}, DType::kI32}};
}

BeamRows MakeBeamRows::rows(const Launch& l) const {
  return {.ids = l.out[0].as<int32_t>(),
          .positions = l.out[1].as<int32_t>(),
          .slot = l.out[2].as<int32_t>(),
          .length = l.out[3].as<int32_t>(),
          .entry = l.out[4].as<int32_t>()};
}

void MakeBeamRows::cpu(const Launch& l) const {
  const BeamBatch batch = beam_batch(rule, l.in);
  const BeamRows made = rows(l);
  for (int64_t row = 0; row < l.out[0].elements(); ++row) make_beam_row(batch, made, row);
}

std::vector<Spec> AdvanceBeams::infer(std::span<const Spec> in) const {
  const int64_t stride = check_beams(kName, rule, in), sentences = in[0].shape[0];
  const Shape& best = in[3].shape;
  check(best.rank() == 2 && best[0] == sentences * rule.beam && in[4].shape == best &&
            in[5].shape == Shape{stride + 1} && in[3].dtype == DType::kF32 && in[4].dtype == DType::kI32 &&
            in[5].dtype == DType::kF64 && (in.size() < 7 || in[6].dtype == DType::kI32),
        "{}: {} for {} sentences with beams of {}, penalties {}", kName, best, sentences, rule.beam, in[5].shape);
  return {{{sentences, BeamStep::report_words(rule, stride)}, DType::kI32}};
}

BeamStep AdvanceBeams::step(const Launch& l) const {
  return {.k = l.in[3].shape()[1],
          .log_probabilities = l.in[3].as<float>(),
          .ids = l.in[4].as<int32_t>(),
          .names = l.in.size() > 6 ? l.in[6].as<int32_t>() : nullptr,
          .penalties = l.in[5].as<double>(),
          .report = l.out[0].as<int32_t>()};
}

void AdvanceBeams::cpu(const Launch& l) const {
  const BeamBatch batch = beam_batch(rule, l.in);
  std::vector<BeamCandidate> candidates(2 * static_cast<size_t>(rule.beam));
  std::vector<int32_t> next(static_cast<size_t>(rule.beam));
  const BeamStep made = step(l);
  const int64_t words = l.out[0].shape()[1];
  for (int64_t s = 0; s < batch.sentences; ++s) {
    advance_sentence(batch, made, s, candidates.data(), next.data());
    for (int32_t i = 0; i < made.report[s * words + 1]; ++i) report_finished(batch, made, s, i);
  }
}

}  // namespace nmt
