#pragma once

#include "graph/graph.h"
#include "tensor/beam_batch.h"

// Beam searches of several sentences where they compute, on a device (searches on the host use Beam); see BeamBatch.
// beams: int32 [sentences, state_words], and history: int32 [slots, 2], are states; pages: int32 [sentences, pages].
namespace nmt {

// The rows of a step, int32 [sentences * beam]: output 0: ids; 1: positions; 2: slot; 3: length; 4: entry [rows,
// stride].
Expr beam_rows(const BeamRule& rule, Expr beams, Expr history, Expr pages);

// The step itself: best, ids: what project_top_k has found for these rows; penalties: float64 [stride + 1], by number
// of tokens; names: int32, what ids are numbers of, or none. Result: what it tells, int32 [sentences, report_words].
// The states are written.
Expr advance_beams(const BeamRule& rule, Expr beams, Expr history, Expr pages, Expr best, Expr ids, Expr penalties,
                   Expr names = {});

struct MakeBeamRows {  // inputs: beams, history, pages
  static constexpr std::string_view kName = "beam_rows";
  BeamRule rule;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const MakeBeamRows&) const = default;

 private:
  BeamRows rows(const Launch& l) const;
};

struct AdvanceBeams {  // inputs: beams, history, pages, best, ids, penalties, and names or none
  static constexpr std::string_view kName = "advance_beams";
  BeamRule rule;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  void cuda(const Launch& l) const;
  bool operator==(const AdvanceBeams&) const = default;

 private:
  BeamStep step(const Launch& l) const;
};

// What both read.
BeamBatch beam_batch(const BeamRule& rule, std::span<const Tensor> in);

}  // namespace nmt
