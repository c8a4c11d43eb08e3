#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/batch.h"
#include "text/corpus_options.h"
#include "text/sentence_store.h"
#include "text/vocab.h"

namespace nmt {

class PairReader;
struct TextPair;

// What the corpus holds, and what of the files it leaves out.
struct CorpusCounts {
  int64_t read = 0, kept = 0;                      // pairs
  int64_t empty = 0;                               // skipped: nothing on a side
  int64_t too_long = 0;                            // skipped
  int64_t cropped = 0;                             // kept, cut to the longest allowed length
  int64_t source_words = 0, target_words = 0;      // of the pairs kept, with </s>
  int64_t source_unknown = 0, target_unknown = 0;  // of these, tokens that the vocabulary does not know
  std::vector<std::string> examples;               // the first few of each kind, with file and line
};

// A training corpus, tokenised once. Reading any pair later costs no text processing, so every epoch may have an order
// of its own. Memory: --shuffle-memory, or 12 bytes a pair where the ids lie in a file.
class Corpus {
 public:
  // Tokenises with `threads` threads while the next lines are read; the result does not depend on their number.
  // Throws UserError for files that are missing, damaged or of unequal length, for a pair that no batch can hold, and
  // where no pair is left.
  Corpus(const DataOptions& options, std::shared_ptr<const Vocab> source, std::shared_ptr<const Vocab> target,
         int threads);

  int64_t size() const { return store_.size(); }
  const CorpusCounts& counts() const { return counts_; }
  const SentenceStore& store() const { return store_; }
  int32_t source_eos() const { return source_->eos_id(); }
  int32_t target_eos() const { return target_->eos_id(); }

  // Equal for equal pairs in equal order: a checkpoint's position in the data holds for such a corpus only.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Encoded;
  void encode(TextPair& pair, const DataOptions& options, Encoded& encoded) const;
  void add(const Encoded& encoded, const TextPair& pair, const PairReader& reader, const DataOptions& options);

  const std::shared_ptr<const Vocab> source_, target_;
  SentenceStore store_;
  CorpusCounts counts_;
  uint64_t fingerprint_ = 0;
};

}  // namespace nmt
