#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decode/search.h"

namespace nmt {

// Translates and scores sentences, several at a time. What comes out for a sentence does not depend on the others, nor
// on the number of threads; on devices up to the rounding of products. The runtime may be shared; whoever changes
// parameters says so to it, and then makes a new decoder.
class Decoder {
 public:
  // With the same models in its memory.
  struct FurtherDevice {
    std::vector<Scorer> scorers;
    std::shared_ptr<Backend> backend;
  };

  // The models (at least one) have the same target vocabulary and are alive as long as the decoder, as is the runtime.
  // With a shortlist, for one model alone, only what it names is looked for. Further devices share the work of
  // translate() with the runtime's.
  Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
          const Shortlist* shortlist = nullptr, std::vector<FurtherDevice> further = {});
  ~Decoder();

  const SearchOptions& options() const { return options_; }
  Runtime& runtime() { return runtime_; }

  // For each source (ids with </s>): its best translations, best first; one, or with n-best as many as the beam has.
  // They are done in any order, but one after another. Sources are begun in the given order; memory is used best if
  // they come by falling length. Throws BrokenModel where a model gives a probability that is not a number, or none to
  // every token; after OutOfMemory, fewer may be tried. words: of each source, for a tree over them (see TreeGrammar);
  // where there are none, it has as many as tokens.
  void translate(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits, const SearchDone& done,
                 std::span<const int32_t> words = {});

  // Whether threads, or devices, translate so many sources apart.
  bool translates_apart(size_t sources, const SearchLimits& limits) const;

  // For each pair: log p (natural logarithm) of each target token, </s> included: as many as its target has ids. For an
  // ensemble the weighted mean of the models' log p.
  std::vector<std::vector<float>> score(std::span<const IdPair> pairs);

  // Tokens, with </s>, that a source or a given translation may have; translations end there, too.
  int64_t longest() const { return together_.longest(); }

 private:
  struct Apart;

  template <class Work>
  auto in_memory(Work work);
  size_t workers() const;  // that may work apart
  std::unique_ptr<Apart> worker(size_t i) const;
  void translate_apart(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                       const SearchDone& done, std::span<const int32_t> words);

  Runtime& runtime_;
  SearchOptions options_;
  std::vector<Scorer> scorers_;
  const Shortlist* shortlist_;
  std::vector<FurtherDevice> further_;
  Search together_;                            // all threads work on each product
  std::vector<std::unique_ptr<Apart>> apart_;  // each thread, or device, works on sentences of its own
};

}  // namespace nmt
