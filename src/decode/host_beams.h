#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "decode/beam.h"
#include "decode/cache_rows.h"
#include "decode/sentences.h"
#include "nn/transformer.h"

namespace nmt {

// The beams of the sentences under way, on the host: which rows a step has, and what becomes of what it finds.
class HostBeams {
 public:
  HostBeams(const SearchOptions& options, int32_t eos) : options_(options), eos_(eos) {}

  // Makes the rows of the next step: the live hypotheses of all sentences.
  void gather(Sentences& sentences);
  Transformer::StepRows rows(Graph& graph) const;
  int64_t count() const { return std::ssize(ids_); }
  int64_t cache_rows() const { return cache_.capacity(); }
  // With trees, by row: the tokens that may follow.
  std::span<const std::vector<int32_t>> in_tree() const { return in_tree_; }

  // Goes on with the k best tokens of each row, with a shortlist numbers of the allowed; sentences that have ended
  // leave.
  void advance(std::span<const float> log_probabilities, std::span<const int32_t> best, int k, ThreadPool& pool,
               Sentences& sentences, const SearchDone& done);

 private:
  struct UnderWay {
    Beam beam;
    int32_t first_row;  // of the step
  };

  const SearchOptions& options_;
  int32_t eos_;
  std::map<int32_t, UnderWay> under_way_;  // by sentence
  CacheRows cache_;
  std::vector<int32_t> ids_, positions_;  // by row
  std::vector<std::vector<int32_t>> in_tree_;
};

}  // namespace nmt
