#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decode/device_beams.h"
#include "decode/host_beams.h"
#include "decode/search_model.h"

namespace nmt {

// A source and its translation as ids, both with </s>.
struct IdPair {
  std::vector<int32_t> source, target;
};

// All of them, one after another.
PairInput pair_input(std::span<const IdPair> pairs);

// Beam search with one runtime; see Decoder. Memory is kept from call to call, until release().
class Search {
 public:
  Search(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options, const Shortlist* shortlist);

  // Until the queue is empty.
  void translate(SourceQueue& queue, const SearchLimits& limits, const SearchDone& done);
  std::vector<std::vector<float>> score(std::span<const IdPair> pairs);
  // Tokens, with </s>, that a sentence of either side may have: as many as each model has positions for.
  int64_t longest() const;
  // Gives back what is kept, the runtime's workspace, too.
  void release();

 private:
  struct BestTokens {  // [rows, k]
    std::vector<float> log_probabilities;
    std::vector<int32_t> ids;
  };

  void encode(const Sentences::Begun& begun, const Sentences& sentences);
  int candidate_count(const Sentences& sentences) const;  // tokens that a hypothesis may go on with, k
  void search_on_host(Sentences& sentences, const SearchDone& done);
  void find_best_tokens(const HostBeams& beams, const Sentences& sentences, int k, BestTokens& best);
  void search_on_device(Sentences& sentences, const SearchDone& done);

  Runtime& runtime_;
  const SearchOptions& options_;
  const Shortlist* shortlist_;
  std::vector<std::unique_ptr<SearchModel>> models_;
  std::unique_ptr<DeviceBeams> device_beams_;  // null: beams are the host's
};

}  // namespace nmt
