#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "decode/beam.h"
#include "decode/sentences.h"
#include "graph/backend.h"
#include "nn/transformer.h"
#include "tensor/beam_batch.h"

namespace nmt {

// The beams of the sentences under way, on a device, which goes on with them by itself: the host is told, a step later,
// which have ended, and their translations. Each sentence has `beam` rows, whether hypotheses live in them or not, so
// that a step is like the last one, and is recorded. When sentences begin, or few are left, the rows of those that have
// ended leave.
class DeviceBeams {
 public:
  DeviceBeams(std::shared_ptr<Backend> backend, const SearchOptions& options, int32_t eos);

  // Forgets the last search: its rows, the report that nobody has read, and sentences that an error has left.
  void clear();
  // Gives the memory back, too.
  void release();
  // Makes ready for the next step; begun: whether sentences have. False: none is under way.
  bool follow(Sentences& sentences, bool begun);
  int64_t cache_rows() const { return int64_t{pages_} * kPageSteps * rule_.beam; }

  // What the graph of a step begins with; rows() and advance() are told.
  struct Leaves {
    Expr beams, history, pages;
  };
  Leaves leaves(Graph& graph) const;
  Transformer::StepRows rows(const Leaves& leaves, const Sentences& sentences) const;
  // What the step ends with, best: of its rows. Its result is what send() wants.
  Expr advance(const Leaves& leaves, Expr best, const Sentences& sentences);

  void send(const void* report);
  // Waits for the report before the one that was sent last.
  void receive();
  // What it says: sentences that have ended leave.
  void read(Sentences& sentences, const SearchDone& done);

 private:
  // A sentence, as far as the host knows.
  struct UnderWay {
    int32_t limit, steps = 0;
    std::vector<int32_t> pages = {};
  };
  struct Report {
    std::unique_ptr<Message> message;
    std::vector<int32_t> sentences;  // that it is about; none: no report is pending
    int64_t stride = 0;
    const int32_t* words = nullptr;
  };

  void regroup(Sentences& all);
  int32_t take_page();

  std::shared_ptr<Backend> backend_;
  const SearchOptions& options_;
  BeamRule rule_;
  std::map<int32_t, UnderWay> under_way_;
  std::vector<int32_t> sentences_;  // in the order of their rows, some of them ended; -1: none
  int64_t stride_ = 0;
  Buffer beams_, next_beams_, begun_, history_;
  int32_t pages_ = 0;  // that there are, in the cache, too
  std::vector<int32_t> free_pages_;
  std::vector<int32_t> page_table_;  // [sentences, stride / kPageSteps]
  std::vector<double> penalties_;    // by number of tokens
  std::vector<int32_t> names_;       // of the allowed tokens
  std::array<Report, 2> reports_;    // of the last steps
};

}  // namespace nmt
