#pragma once

#include "graph/graph.h"
#include "tensor/beam.h"

namespace nmt {

// A step of the beam searches of several sentences where they compute; see BeamBatch. states, all written: ids,
// positions, slot, length [sentences * beam], entry [sentences * beam, stride], beams [sentences, state_words], history
// [slots, 2], all int32. best, ids: what project_top_k found, [sentences * beam, k]; penalties: float64
// [longest limit + 1] by length; names: int32, or none. Result: reports, int32 [sentences, report_words].
struct BeamStates {
  Expr ids, positions, slot, length, entry, beams, history;
};
Expr advance_beams(const BeamRule& rule, Expr best, Expr ids, const BeamStates& states, Expr penalties,
                   Expr names = {});

struct AdvanceBeams {  // inputs: best and its ids, the states in their order, penalties, and names or none
  static constexpr std::string_view kName = "advance_beams";
  BeamRule rule;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const AdvanceBeams&) const = default;

 private:
  BeamBatch batch(const Launch& l) const;
};

}  // namespace nmt
