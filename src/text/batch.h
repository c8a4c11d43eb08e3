#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace nmt {

// Sentence pairs as packed token ids, one sentence after another without padding, each with its </s>.
struct Batch {
  std::vector<int32_t> source, target;
  std::vector<int32_t> source_begin{0}, target_begin{0};  // sentences() + 1 offsets into source and target
  std::vector<int64_t> pairs;                             // number of each pair in its corpus, from 0

  int64_t sentences() const { return static_cast<int64_t>(pairs.size()); }
  int64_t source_words() const { return static_cast<int64_t>(source.size()); }  // with </s>
  int64_t target_words() const { return static_cast<int64_t>(target.size()); }

  // Positions that padding every sentence to the longest of the batch would add; the engine itself pads nothing.
  int64_t source_padding() const;
  int64_t target_padding() const;

  // The i-th of n runs of its pairs, which have about as many tokens each; some have none where there are few pairs.
  Batch part(int64_t i, int64_t n) const;

  // Closes a sentence pair whose ids, with </s>, were appended to source and target.
  void close_pair(int64_t pair);

  bool operator==(const Batch&) const = default;
};

// Tokens of a pair, without </s>.
struct PairLength {
  int32_t source = 0, target = 0;
};

// What a batch may hold at most.
struct BatchLimits {
  int64_t sentences, source_words, target_words;  // words count every token with </s>, no padding
};

// The pairs in an order of slowly changing length: by the longer side, then by the difference of the sides, up and down
// in turn, so that neither side jumps where the longer one grows. Pairs of equal lengths keep their order. (Sorting by
// target, then source leaves about twice the padding.) Up to 2^32 pairs.
std::vector<uint32_t> order_by_length(std::span<const PairLength> lengths);

// Cuts pairs, taken in `order`, into runs [begin, end) as long as the limits allow. A pair beyond them is a run alone.
std::vector<std::pair<uint32_t, uint32_t>> cut_batches(std::span<const PairLength> lengths,
                                                       std::span<const uint32_t> order, const BatchLimits& limits);

// Sums over batches, such as those of an epoch.
struct BatchCounts {
  int64_t batches = 0, sentences = 0, source_words = 0, target_words = 0, padding = 0;

  void add(const Batch& batch);
  // The part of a padded layout, both sides together, that would be padding: in [0, 1).
  double padded_share() const;
  bool operator==(const BatchCounts&) const = default;
};

}  // namespace nmt
