#include "text/corpus.h"

#include <algorithm>
#include <future>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "text/pair_reader.h"

namespace nmt {
namespace {

constexpr size_t kChunkPairs = 1 << 14;    // read and tokenised at a time
constexpr size_t kChunkBytes = 16 << 20;   // of text, likewise
constexpr int64_t kGrain = 64;             // pairs that a thread takes at a time
constexpr int64_t kExamples = 3;           // of each kind
constexpr int64_t kProgress = 5'000'000;   // pairs between two lines of the log
constexpr int64_t kUncounted = INT64_MAX;  // tokens of a line beyond Vocab::kMostLineBytes

// Reads up to a chunk into `pairs`, whose strings keep their memory; returns how many.
size_t read_chunk(PairReader& reader, std::vector<TextPair>& pairs) {
  pairs.resize(kChunkPairs);
  size_t n = 0;
  for (size_t bytes = 0; n < kChunkPairs && bytes < kChunkBytes && reader.next(pairs[n]); ++n)
    bytes += pairs[n].source.size() + pairs[n].target.size();
  return n;
}

// The first max_length ids of a line at most; `tokens` is how many it has.
std::vector<int32_t> encode_line(const Vocab& vocab, std::string& text, int64_t max_length, int64_t& tokens) {
  auto [ids, whole] = vocab.encode_line(text);
  tokens = whole ? std::ssize(ids) : kUncounted;
  if (!whole) std::string().swap(text);  // its memory would stay for the lines to come
  if (std::ssize(ids) > max_length) ids.resize(static_cast<size_t>(max_length));
  return ids;
}

}  // namespace

struct Corpus::Encoded {
  std::vector<uint8_t> record;
  PairLength length;
  int64_t source_tokens = 0, target_tokens = 0;  // before cropping
  int64_t source_unknown = 0, target_unknown = 0;
};

Corpus::Corpus(const DataOptions& options, std::shared_ptr<const Vocab> source, std::shared_ptr<const Vocab> target,
               int threads)
    : source_(std::move(source)), target_(std::move(target)), store_(options.shuffle_memory << 20, options.tempdir) {
  PairReader reader(options.train_sets, options.target_trees);
  ThreadPool pool(threads);
  std::vector<TextPair> pairs, next_pairs;
  std::vector<Encoded> encoded(kChunkPairs);
  for (size_t n = read_chunk(reader, pairs); n > 0; std::swap(pairs, next_pairs)) {
    auto next = std::async(std::launch::async, [&] { return read_chunk(reader, next_pairs); });
    pool.parallel_for(static_cast<int64_t>(n), kGrain, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        encode(pairs[i], options, encoded[i]);
    });
    for (size_t i = 0; i < n; ++i) add(encoded[i], pairs[i], reader, options);
    if (counts_.read >= kProgress && counts_.read % kProgress < static_cast<int64_t>(n))
      log::info("{} sentence pairs read", counts_.read);
    n = next.get();
  }
  require(counts_.kept > 0,
          "no usable sentence pair in {}: of {} pairs {} are empty and {} are longer than --max-length {}",
          reader.names(), counts_.read, counts_.empty, counts_.too_long, options.max_length);
  store_.finish();
}

void Corpus::encode(TextPair& pair, const DataOptions& options, Encoded& encoded) const {
  const auto source = encode_line(*source_, pair.source, options.max_length, encoded.source_tokens);
  const auto target = encode_line(*target_, pair.target, options.max_length, encoded.target_tokens);
  encoded.length = {static_cast<int32_t>(source.size()), static_cast<int32_t>(target.size())};
  encoded.source_unknown = std::ranges::count(source, source_->unk_id());
  encoded.target_unknown = std::ranges::count(target, target_->unk_id());
  encoded.record.clear();
  SentenceStore::encode(source, encoded.record);
  SentenceStore::encode(target, encoded.record);
}

void Corpus::add(const Encoded& encoded, const TextPair& pair, const PairReader& reader, const DataOptions& options) {
  const auto [source, target] = encoded.length;
  const auto count = [&](int64_t& counter, bool in_target, const std::string& what) {
    if (++counter <= kExamples)
      counts_.examples.push_back(fmt::format("{} {}", reader.place(pair.set, pair.line, in_target), what));
  };
  ++counts_.read;
  if (source == 0 || target == 0) return count(counts_.empty, source != 0, "is empty");

  const bool source_long = encoded.source_tokens > options.max_length;
  if (source_long || encoded.target_tokens > options.max_length) {
    const int64_t tokens = source_long ? encoded.source_tokens : encoded.target_tokens;
    count(options.max_length_crop ? counts_.cropped : counts_.too_long, !source_long,
          tokens == kUncounted ? fmt::format("is longer than {} KiB", Vocab::kMostLineBytes >> 10)
                               : fmt::format("has {} tokens", tokens));
    if (!options.max_length_crop) return;
  }

  const BatchLimits limits = options.limits();
  const bool target_too_large = target + 1 > limits.target_words;
  require(source + 1 <= limits.source_words && !target_too_large,
          "{} has {} tokens with the end token, more than a batch may hold: raise {} or lower --max-length",
          reader.place(pair.set, pair.line, target_too_large), 1 + (target_too_large ? target : source),
          options.mini_batch_words > 0 ? "--mini-batch-words"
          : target_too_large           ? "--batch-target-words"
                                       : "--batch-source-words");

  const uint64_t lengths = static_cast<uint64_t>(source) << 32 | static_cast<uint32_t>(target);
  const auto* bytes = reinterpret_cast<const char*>(encoded.record.data());
  fingerprint_ = hash64({bytes, encoded.record.size()}, fingerprint_ ^ lengths);
  store_.append(encoded.record, encoded.length);
  ++counts_.kept;
  counts_.source_words += source + 1;
  counts_.target_words += target + 1;
  counts_.source_unknown += encoded.source_unknown;
  counts_.target_unknown += encoded.target_unknown;
}

}  // namespace nmt
