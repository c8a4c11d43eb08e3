#pragma once

#include <array>
#include <memory>
#include <vector>

#include "decode/beam.h"
#include "decode/sentences.h"
#include "decode/source_places.h"
#include "graph/backend.h"
#include "nn/transformer.h"
#include "ops/advance_beams.h"

namespace nmt {

// The beams of the sentences under way, on a device, which goes on with them by itself: the host is told, a step later,
// which have ended, and their translations. Each sentence has `beam` rows, whether hypotheses live in them or not, so
// that a step is the same as the last one, and is recorded; when sentences begin, or few are left, the rows of those
// that have ended leave.
class DeviceBeams {
 public:
  DeviceBeams(std::shared_ptr<Backend> backend, const SearchOptions& options, int32_t eos);

  // Forgets all; from now on translations have `longest` tokens at most, with </s>.
  void open(int64_t longest);
  // Makes the rows of the next step; begun: whether sentences have. False: none is under way.
  bool follow(Sentences& sentences, bool begun);
  Transformer::StepRows rows(Graph& graph) const;
  int64_t cache_rows() const { return round_up(slots_.rows(), 64); }  // in steps, so that plans repeat
  // What the step ends with, best: of its rows. Its result is what send() wants.
  Expr advance(Expr best, const Transformer::StepRows& rows, const Sentences& sentences);
  void send(const void* report);
  // Looks at the report before the one that was sent last; sentences that have ended leave.
  void receive(Sentences& sentences, const SearchDone& done);

 private:
  // What the device knows of a sentence, by kind; `now` is in use.
  enum Kind : size_t { kIds, kPositions, kSlot, kLength, kEntry, kBeams, kKinds };
  struct State {
    int64_t words;  // of 32 bits, of a sentence
    Buffer now, next;
  };
  struct Report {
    std::unique_ptr<Message> message;
    std::vector<int32_t> sentences;  // it is of these; none: there is none
  };

  void regroup(const std::vector<int32_t>& sentences, const Sentences& all);
  void write_first_state(Kind kind, int32_t slot, int64_t limit, int32_t* words) const;
  Expr state(Graph& graph, Kind kind) const;

  std::shared_ptr<Backend> backend_;
  const SearchOptions& options_;
  BeamRule rule_;
  int64_t longest_ = 0, stride_ = 0;
  std::array<State, kKinds> states_;
  Buffer history_, begun_;
  std::vector<double> penalties_;   // by length
  std::vector<int32_t> names_;      // of the allowed tokens
  SourcePlaces slots_;              // of the cache, and of the history
  std::vector<int32_t> sentences_;  // in the order of their rows, some of them ended
  std::array<Report, 2> reports_;
};

}  // namespace nmt
