#include "text/batch_stream.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/math.h"
#include "base/philox.h"
#include "text/shuffle.h"

namespace nmt {
namespace {

// So many pairs that a window makes about maxi_batch batches.
int64_t window_pairs(const CorpusCounts& counts, const BatchLimits& limits, int64_t maxi_batch) {
  const int64_t in_batch = std::min({limits.sentences, limits.source_words * counts.kept / counts.source_words,
                                     limits.target_words * counts.kept / counts.target_words});
  return std::min({std::max<int64_t>(in_batch, 1) * maxi_batch, counts.kept, int64_t{UINT32_MAX}});
}

}  // namespace

BatchStream::BatchStream(std::shared_ptr<const Corpus> corpus, const DataOptions& options, uint64_t seed,
                         Position start)
    : corpus_(std::move(corpus)),
      limits_(options.limits()),
      shuffle_pairs_(options.shuffle == "data"),
      shuffle_batches_(options.shuffle != "none"),
      pair_seed_(hash64("order of pairs", seed)),
      batch_seed_(hash64("order of batches", seed)),
      position_(start) {
  const int64_t window = window_pairs(corpus_->counts(), limits_, options.maxi_batch);
  windows_ = static_cast<uint64_t>(divide_up(corpus_->size(), window));
  if (position_.window < windows_) load_window();
  require(position_.batch < runs_.size(),
          "its position in the training data (epoch {}, window {}, batch {}) does not exist: the training files or the "
          "batch options are not those it was written with",
          start.epoch, start.window, start.batch);
}

// Windows of equal size, so that the last is not a small rest.
uint64_t BatchStream::window_border(uint64_t window) const {
  const auto n = static_cast<uint64_t>(corpus_->size());
  return n / windows_ * window + n % windows_ * window / windows_;
}

void BatchStream::load_window() {
  const uint64_t begin = window_border(position_.window), end = window_border(position_.window + 1);
  const Permutation permutation(static_cast<uint64_t>(corpus_->size()), pair_seed_, position_.epoch);
  pairs_.resize(end - begin);
  for (uint64_t i = begin; i < end; ++i) pairs_[i - begin] = static_cast<int64_t>(shuffle_pairs_ ? permutation(i) : i);
  lengths_.resize(pairs_.size());
  std::ranges::transform(pairs_, lengths_.begin(), [&](int64_t pair) { return corpus_->store().length(pair); });
  order_ = order_by_length(lengths_);
  runs_ = cut_batches(lengths_, order_, limits_);
  if (shuffle_batches_) Random(batch_seed_, position_.epoch << 32 ^ position_.window).shuffle(runs_);
  records_ = corpus_->store().fetch(pairs_, buffer_);
}

TrainingBatch BatchStream::next() {
  if (runs_.empty()) load_window();
  TrainingBatch result;
  Batch& batch = result.batch;
  const auto [begin, end] = runs_[position_.batch];
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t k = order_[i];
    const uint8_t* target = SentenceStore::decode(records_[k], lengths_[k].source, batch.source);
    batch.source.push_back(corpus_->source_eos());
    SentenceStore::decode(target, lengths_[k].target, batch.target);
    batch.target.push_back(corpus_->target_eos());
    batch.close_pair(pairs_[k]);
  }
  if (++position_.batch == runs_.size()) {
    runs_.clear();
    position_.batch = 0;
    if (++position_.window == windows_) {
      position_.window = 0;
      ++position_.epoch;
    }
  }
  result.next = position_;
  return result;
}

namespace {

// How many sentences of one side of a corpus have each length, with </s>.
class LengthCounts {
 public:
  LengthCounts(const Corpus& corpus, int32_t PairLength::*side) {
    for (int64_t i = 0; i < corpus.size(); ++i) {
      const auto length = static_cast<size_t>(corpus.store().length(i).*side + 1);
      if (length >= counts_.size()) counts_.resize(length + 1);
      ++counts_[length];
    }
  }

  int64_t longest() const { return std::ssize(counts_) - 1; }
  // The words of so many sentences, the longest.
  int64_t most_words(int64_t sentences) const {
    int64_t words = 0;
    for (int64_t length = longest(); length > 0 && sentences > 0; --length) {
      const int64_t n = std::min(sentences, count(length));
      words += n * length;
      sentences -= n;
    }
    return words;
  }
  // The sentences of so many words, the shortest.
  int64_t most_sentences(int64_t words) const {
    int64_t sentences = 0;
    for (int64_t length = 1; length <= longest() && words >= length; ++length) {
      const int64_t n = std::min(words / length, count(length));
      sentences += n;
      words -= n * length;
    }
    return sentences;
  }

 private:
  int64_t count(int64_t length) const { return counts_[static_cast<size_t>(length)]; }

  std::vector<int64_t> counts_;
};

}  // namespace

Batch largest_batch(const Corpus& corpus, const BatchLimits& limits, int64_t parts) {
  const LengthCounts sources(corpus, &PairLength::source), targets(corpus, &PairLength::target);
  const int64_t pairs = std::min(limits.sentences, corpus.size());
  const auto most_words = [&](const LengthCounts& lengths, int64_t limit) {
    const int64_t all = std::min(lengths.most_words(pairs), limit);
    return parts == 1 ? all : std::min(all, 5 * all / (4 * parts) + lengths.longest());
  };
  const int64_t source = most_words(sources, limits.source_words), target = most_words(targets, limits.target_words);
  const int64_t n =
      std::max<int64_t>(1, std::min({pairs, sources.most_sentences(source), targets.most_sentences(target)}));
  Batch batch;
  // One is the longest; the others share what is left.
  const auto grow = [&](std::vector<int32_t>& words, int64_t longest, int64_t all, int64_t i) {
    const int64_t rest = std::max(all - longest, n - 1);  // a word of each
    words.resize(static_cast<size_t>(longest + (n == 1 ? 0 : rest * i / (n - 1))));
  };
  for (int64_t i = 0; i < n; ++i) {
    grow(batch.source, sources.longest(), source, i);
    grow(batch.target, targets.longest(), target, i);
    batch.close_pair(0);
  }
  return batch;
}

std::vector<std::string> EpochReport::lines() const {
  std::vector<std::string> lines{fmt::format(
      "{} pairs in {} batches, {} source and {} target tokens; padding each batch to its longest sentences would add "
      "{:.1f}%",
      batches.sentences, batches.batches, batches.source_words, batches.target_words, 100 * batches.padded_share())};
  if (!corpus.examples.empty())
    lines.push_back(
        fmt::format("of {} pairs read {} are skipped as empty, {} skipped as over-long, {} cropped: {}{}", corpus.read,
                    corpus.empty, corpus.too_long, corpus.cropped, fmt::join(corpus.examples, "; "),
                    corpus.empty + corpus.too_long + corpus.cropped > std::ssize(corpus.examples) ? "; ..." : ""));
  return lines;
}

}  // namespace nmt
