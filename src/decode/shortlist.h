#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "text/vocab.h"

namespace nmt {

// Which target tokens are likely in the translation of a sentence: for each source token a list of its own, and a list
// that is always there. A step of the search need not compute the others' probabilities. The lists of one pair of
// vocabularies, in a safetensors file: `begin`, `ids` and `frequent`, with the vocabularies' hashes as metadata.
class Shortlist {
 public:
  // The list of source token s is ids[begin[s]] to ids[begin[s + 1]]. This list and `frequent`, in which </s> is, rise.
  Shortlist(const Vocab& source, const Vocab& target, std::vector<int32_t> begin, std::vector<int32_t> ids,
            std::vector<int32_t> frequent);

  // Throws UserError for a file that is no shortlist, is damaged, or belongs to other vocabularies.
  static Shortlist load(const std::string& path, const Vocab& source, const Vocab& target);
  void save(SafetensorsWriter& file) const;  // and commits it

  // The list of one source token, and the one that is always there; they rise.
  std::span<const int32_t> likely(int32_t source_id) const;
  std::span<const int32_t> frequent() const { return frequent_; }

  // All that is likely for these source tokens, of one sentence or of several: the union of the lists, which rises,
  // with the source tokens themselves where both languages have one vocabulary. Any number of threads may ask.
  std::vector<int32_t> candidates(std::span<const int32_t> source_ids) const;

 private:
  std::string source_hash_, target_hash_;
  size_t target_size_;
  std::vector<int32_t> begin_, ids_, frequent_;
};

}  // namespace nmt
