#include "text/corpus_options.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "text/sentence_store.h"

namespace nmt {

void DataOptions::declare(Options& options) {
  constexpr double kMostWords = 1e9;
  options.group("Training data");
  options.add("train-sets", train_sets,
              "Training files, aligned line by line: SOURCE TARGET, or several such pairs; plain, gzip or zstd");
  options
      .add("max-length", max_length,
           "Pairs with more tokens on a side (without the end token) are skipped and counted (nmt-decode cuts)")
      .range(1, SentenceStore::kMaxTokens);
  options.add("max-length-crop", max_length_crop, "Cut over-long sentences to --max-length instead of skipping them");
  options
      .add("batch-source-words", batch_source_words,
           "Source tokens of a batch at most, with end tokens, without padding")
      .range(1, kMostWords);
  options
      .add("batch-target-words", batch_target_words,
           "Target tokens of a batch at most, with end tokens, without padding")
      .range(1, kMostWords);
  options.add("mini-batch-words", mini_batch_words, "Sets --batch-source-words and --batch-target-words; 0: they stand")
      .range(0, kMostWords);
  options.add("mini-batch", mini_batch, "Sentence pairs of a batch at most; 0: only tokens count").range(0, kMostWords);
  options
      .add("maxi-batch", maxi_batch,
           "Batches that are made at a time, from pairs sorted by length: more gives less padding, but takes memory")
      .range(1, 1e6);
  options
      .add(
          "shuffle", shuffle,
          "data: pairs and batches in a new random order each epoch; batches: pairs in the order of the files, batches "
          "of a maxi-batch shuffled; none: neither")
      .choices({"data", "batches", "none"});
  options
      .add("shuffle-memory", shuffle_memory,
           "MiB of memory for the tokenised corpus; a larger one lies in a temporary file (12 bytes a pair stay)")
      .range(0, 1e9);
  options.add("tempdir", tempdir, "Folder of that temporary file; $TMPDIR or /tmp where not given");
}

BatchLimits DataOptions::limits() const {
  const auto or_else = [](int64_t value, int64_t other) { return value > 0 ? value : other; };
  return {.sentences = or_else(mini_batch, INT32_MAX),
          .source_words = or_else(mini_batch_words, batch_source_words),
          .target_words = or_else(mini_batch_words, batch_target_words)};
}

uint64_t DataOptions::batching() const {
  const BatchLimits l = limits();
  return hash64(fmt::format("{} {} {} {} {}", l.sentences, l.source_words, l.target_words, maxi_batch, shuffle));
}

}  // namespace nmt
