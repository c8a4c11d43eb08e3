#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/math.h"
#include "decode/allowed_tokens.h"
#include "decode/beam.h"
#include "decode/source_places.h"
#include "nn/model_config.h"
#include "nn/packed_text.h"

namespace nmt {

// How much a search works on together. Results depend on it as far as Decoder says: hardly, or not at all.
struct SearchLimits {
  int64_t sentences = 64;
  int64_t tokens = 4000;  // of sources, for each thread, or device; a longer sentence is alone
  bool apart = true;      // threads, or devices, may search apart, each so much
};

// done(index of a source, its translations, best first): called as soon as it is translated.
using SearchDone = std::function<void(size_t index, std::vector<Hypothesis> best)>;

// Sources (ids with </s>) that a search takes in their order: of all, each `step`th from `first` on. Which search
// translates a sentence must not depend on time, as on devices the rounding depends on its company.
class SourceQueue {
 public:
  // words: how many each source's text has, where that is not its number of tokens.
  explicit SourceQueue(std::span<const std::vector<int32_t>> sources, std::span<const int32_t> words = {},
                       size_t first = 0, size_t step = 1)
      : sources_(sources), words_(words), next_(first), step_(step) {}

  // The next one's index, if it has at most so many ids.
  std::optional<size_t> take(int64_t longest);
  void close() { closed_ = true; }  // nothing is left; any thread may say so
  const std::vector<int32_t>& operator[](size_t index) const { return sources_[index]; }
  int64_t words(size_t index) const { return words_.empty() ? std::ssize(sources_[index]) - 1 : words_[index]; }

 private:
  std::span<const std::vector<int32_t>> sources_;
  std::span<const int32_t> words_;
  size_t next_, step_;
  std::atomic<bool> closed_ = false;
};

// The sentences that one search has under way. The next ones begin where others have ended.
class Sentences {
 public:
  // longest: of a translation, in tokens with </s>. shortlist: null for none.
  Sentences(SourceQueue& queue, const SearchOptions& options, const SearchLimits& limits, const ModelConfig& config,
            int64_t longest, const Shortlist* shortlist);

  // The sentences that begin now, where a good part of the room is free: packed, and the rows of their encoder output.
  struct Begun {
    PackedText source;
    std::vector<int32_t> rows;  // by sentence: the first
  };
  Begun begin();
  void end(int32_t sentence);

  int64_t count() const { return sentences_; }  // under way
  std::vector<int32_t> under_way() const;       // in the order of their sources' rows
  int64_t words(int32_t sentence) const { return queue_.words(static_cast<size_t>(sentence)); }
  int64_t limit(int32_t sentence) const;  // of its translation's tokens, with </s>
  uint64_t key(int32_t sentence) const;   // of its source's ids alone: what is drawn does not depend on its place
  int64_t longest() const { return longest_; }

  // The rows of a step: rows[i] of the i-th sentence under way. Padded, so that plans repeat, to so many places and
  // all_rows rows at least; the rows that this adds belong to the last place, which then has no source.
  void lay_out(std::span<const int32_t> rows, size_t places = 0, int64_t all_rows = 0);
  int64_t source_rows() const { return round_up(places_.rows(), 64); }  // in steps, so that plans repeat

  std::vector<int32_t> row_begin, source_begin;  // by place of a source; one that is free has no rows
  std::vector<int64_t> weight_begin;
  std::optional<AllowedTokens> allowed;  // with a shortlist
  std::vector<uint8_t> masks;            // of these tokens, by row

 private:
  SourceQueue& queue_;
  const SearchOptions& options_;
  SearchLimits limits_;
  int64_t longest_;
  SourcePlaces places_;
  int64_t sentences_ = 0, tokens_ = 0;  // under way
};

}  // namespace nmt
