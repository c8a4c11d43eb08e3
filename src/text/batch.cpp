#include "text/batch.h"

#include <algorithm>

#include "base/error.h"

namespace nmt {
namespace {

int64_t padding(const std::vector<int32_t>& begin) {
  int64_t longest = 0;
  for (size_t i = 1; i < begin.size(); ++i) longest = std::max<int64_t>(longest, begin[i] - begin[i - 1]);
  return longest * static_cast<int64_t>(begin.size() - 1) - (begin.back() - begin.front());
}

}  // namespace

int64_t Batch::source_padding() const { return padding(source_begin); }
int64_t Batch::target_padding() const { return padding(target_begin); }

Batch Batch::part(int64_t i, int64_t n) const {
  const int64_t words = source_words() + target_words();
  // The first pair that begins in the k-th n-th of all tokens.
  const auto first = [&](int64_t k) {
    int64_t s = 0;
    while (s < sentences() &&
           (source_begin[static_cast<size_t>(s)] + target_begin[static_cast<size_t>(s)]) * n < words * k)
      ++s;
    return static_cast<size_t>(s);
  };
  Batch run;
  for (size_t s = first(i); s < first(i + 1); ++s) {
    run.source.insert(run.source.end(), source.begin() + source_begin[s], source.begin() + source_begin[s + 1]);
    run.target.insert(run.target.end(), target.begin() + target_begin[s], target.begin() + target_begin[s + 1]);
    run.close_pair(pairs[s]);
  }
  return run;
}

void Batch::close_pair(int64_t pair) {
  check(source.size() <= INT32_MAX && target.size() <= INT32_MAX, "a batch has too many tokens");
  source_begin.push_back(static_cast<int32_t>(source.size()));
  target_begin.push_back(static_cast<int32_t>(target.size()));
  pairs.push_back(pair);
}

std::vector<uint32_t> order_by_length(std::span<const PairLength> lengths) {
  check(lengths.size() <= UINT32_MAX, "too many pairs to sort at a time");
  struct Key {
    int32_t longer, difference;
    uint32_t pair;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys(lengths.size());
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const auto [source, target] = lengths[i];
    const int32_t longer = std::max(source, target);
    keys[i] = {longer, longer % 2 == 0 ? source - target : target - source, i};
  }
  std::ranges::sort(keys);
  std::vector<uint32_t> order(keys.size());
  std::ranges::transform(keys, order.begin(), &Key::pair);
  return order;
}

std::vector<std::pair<uint32_t, uint32_t>> cut_batches(std::span<const PairLength> lengths,
                                                       std::span<const uint32_t> order, const BatchLimits& limits) {
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  uint32_t begin = 0;
  int64_t source = 0, target = 0;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const PairLength length = lengths[order[i]];
    source += length.source + 1;
    target += length.target + 1;
    if (i > begin && (source > limits.source_words || target > limits.target_words || i - begin >= limits.sentences)) {
      runs.emplace_back(begin, i);
      begin = i;
      source = length.source + 1;
      target = length.target + 1;
    }
  }
  if (begin < order.size()) runs.emplace_back(begin, static_cast<uint32_t>(order.size()));
  return runs;
}

void BatchCounts::add(const Batch& batch) {
  ++batches;
  sentences += batch.sentences();
  source_words += batch.source_words();
  target_words += batch.target_words();
  padding += batch.source_padding() + batch.target_padding();
}

double BatchCounts::padded_share() const {
  const int64_t all = padding + source_words + target_words;
  return all == 0 ? 0.0 : static_cast<double>(padding) / static_cast<double>(all);
}

}  // namespace nmt
