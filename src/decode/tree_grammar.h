#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/vocab.h"

namespace nmt {

// The token sequences of trees (section 6.3; see linear_tree.h) over a given number of words: what delinearise() takes
// without a fault. Every constituent is closed by its own label, holds a word, and each word has one leaf.
class TreeGrammar {
 public:
  // Of the vocabulary's pieces, those are brackets whose label has an opening and a closing one, `(NP` and `)NP`; those
  // without a bracket are leaves: XX, or tags. In a vocabulary of both sides, which has the sentences' words too, XX
  // alone is one. Throws UserError, naming the file, for a vocabulary that is not of words, or has no brackets or leaf.
  TreeGrammar(const Vocab& vocab, bool of_both_sides, const std::string& name);

  // The ids that may follow those of `begun`, such that a tree of so many words is complete within `limit` tokens,
  // </s> counted. As few tokens suffice as there are words, and </s>. `begun` is made of ids that this gave; it may end
  // with no </s>. There is always one that may follow.
  void next(std::span<const int32_t> begun, int64_t words, int64_t limit, std::vector<int32_t>& ids) const;

 private:
  enum class Kind { kNone, kOpens, kCloses, kLeaf };

  std::vector<Kind> kinds_;      // by id
  std::vector<int32_t> closes_;  // by id of an opening bracket: the closing one
  std::vector<int32_t> opening_, leaves_;
  int32_t eos_;
};

}  // namespace nmt
