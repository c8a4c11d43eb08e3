#include "decode/shortlist_trainer.h"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace nmt {
namespace {

constexpr size_t kJointCounts = size_t{1} << 26;  // held at a time: 256 MiB
constexpr double kUnit = 4294967296.0;            // 2^32
constexpr float kThreshold = 1e-4F;               // less probable targets are left out

// A target token f of a source token e.
struct Entry {
  int32_t target;
  float probability = 1;  // t(f|e), up to a factor at the start
  uint64_t count = 0;     // expected, in units of 2^-32: sums of whole numbers do not depend on their order
};

using Row = std::vector<Entry>;  // of one source token, by rising target

// Calls visit(source, target) with the ids of each pair, on many threads; visit may change them.
template <class Visit>
void for_each_pair(const SentenceStore& pairs, ThreadPool& pool, const Visit& visit) {
  constexpr int64_t kBlock = 1 << 16, kGrain = 256;
  std::vector<uint8_t> buffer;
  for (int64_t first = 0; first < pairs.size(); first += kBlock) {
    std::vector<int64_t> numbers(static_cast<size_t>(std::min(kBlock, pairs.size() - first)));
    std::iota(numbers.begin(), numbers.end(), first);
    const auto records = pairs.fetch(numbers, buffer);
    pool.parallel_for(std::ssize(numbers), kGrain, [&](int64_t begin, int64_t end) {
      std::vector<int32_t> source, target;
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        source.clear();
        target.clear();
        const PairLength length = pairs.length(numbers[i]);
        const uint8_t* rest = SentenceStore::decode(records[i], length.source, source);
        SentenceStore::decode(rest, length.target, target);
        visit(source, target);
      }
    });
  }
}

template <class T>
void add(T& sum, T value) {
  std::atomic_ref(sum).fetch_add(value, std::memory_order_relaxed);
}

void remove_repeated(std::vector<int32_t>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

// The sentences in which a token is.
struct SentenceCounts {
  std::vector<uint32_t> source, target;
};

SentenceCounts count_sentences(const SentenceStore& pairs, int source_size, int target_size, ThreadPool& pool) {
  SentenceCounts counts{std::vector<uint32_t>(static_cast<size_t>(source_size)),
                        std::vector<uint32_t>(static_cast<size_t>(target_size))};
  for_each_pair(pairs, pool, [&](std::vector<int32_t>& source, std::vector<int32_t>& target) {
    remove_repeated(source);
    remove_repeated(target);
    for (const int32_t e : source) add(counts.source[static_cast<size_t>(e)], 1u);
    for (const int32_t f : target) add(counts.target[static_cast<size_t>(f)], 1u);
  });
  return counts;
}

// The `best` indices of `values` by falling value, then rising index, of those whose value is positive; they rise.
template <class Value>
std::vector<int32_t> highest(const std::vector<Value>& values, size_t best) {
  std::vector<int32_t> indices;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] > 0) indices.push_back(static_cast<int32_t>(i));
  if (indices.size() > best) {
    const auto rank = [&](int32_t i) { return std::pair(-static_cast<double>(values[static_cast<size_t>(i)]), i); };
    std::ranges::nth_element(indices, indices.begin() + static_cast<ptrdiff_t>(best), {}, rank);
    indices.resize(best);
    std::ranges::sort(indices);
  }
  return indices;
}

// By source token: the kTargetsKept targets with the highest Dice coefficient. Counts for some source tokens after the
// other, which are as many as memory is set aside for.
std::vector<Row> pair_tokens(const SentenceStore& pairs, const SentenceCounts& sentences, ThreadPool& pool) {
  const size_t targets = sentences.target.size(), block = std::max<size_t>(1, kJointCounts / targets);
  std::vector<Row> rows(sentences.source.size());
  std::vector<uint32_t> joint;  // [block, targets]
  for (size_t next = 0; next < rows.size();) {
    std::vector<size_t> tokens;  // of this block
    std::vector<int32_t> place(rows.size(), -1);
    for (; next < rows.size() && tokens.size() < block; ++next) {
      if (sentences.source[next] == 0) continue;
      place[next] = static_cast<int32_t>(tokens.size());
      tokens.push_back(next);
    }
    joint.assign(tokens.size() * targets, 0);
    for_each_pair(pairs, pool, [&](std::vector<int32_t>& source, std::vector<int32_t>& target) {
      std::erase_if(source, [&](int32_t e) { return place[static_cast<size_t>(e)] < 0; });
      if (source.empty()) return;
      remove_repeated(source);
      remove_repeated(target);
      for (const int32_t e : source) {
        uint32_t* counts = joint.data() + static_cast<size_t>(place[static_cast<size_t>(e)]) * targets;
        for (const int32_t f : target) add(counts[f], 1u);
      }
    });
    pool.parallel_for(std::ssize(tokens), 16, [&](int64_t begin, int64_t end) {
      std::vector<double> dice(targets);
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        const uint32_t* counts = joint.data() + i * targets;
        for (size_t f = 0; f < targets; ++f)
          dice[f] = counts[f] == 0 ? 0 : 2.0 * counts[f] / (0.0 + sentences.source[tokens[i]] + sentences.target[f]);
        for (const int32_t f : highest(dice, kTargetsKept)) rows[tokens[i]].push_back({f});
      }
    });
  }
  return rows;
}

// The M-step: t(f|e) is the share of f in the expected counts of e.
void normalise(Row& row) {
  double sum = 0;
  for (const Entry& entry : row) sum += static_cast<double>(entry.count);
  for (Entry& entry : row) {
    entry.probability = sum == 0 ? 0 : static_cast<float>(static_cast<double>(entry.count) / sum);
    entry.count = 0;
  }
}

// One iteration of EM. A target token counts for the source tokens and the null word by their shares of its
// probability.
void iterate(const SentenceStore& pairs, std::vector<Row>& rows, Row& null_row, ThreadPool& pool) {
  for_each_pair(pairs, pool, [&](const std::vector<int32_t>& source, std::vector<int32_t>& target) {
    std::ranges::sort(target);
    std::vector<std::pair<Entry*, size_t>> found;  // and the target's position
    std::vector<double> sum(target.size());        // of t(f|e) over the source tokens and the null word
    for (size_t j = 0; j < target.size(); ++j) found.emplace_back(&null_row[static_cast<size_t>(target[j])], j);
    for (const int32_t e : source) {
      Row& row = rows[static_cast<size_t>(e)];
      auto entry = row.begin();
      for (size_t j = 0; j < target.size(); ++j) {
        entry = std::ranges::lower_bound(entry, row.end(), target[j], {}, &Entry::target);
        if (entry == row.end()) break;
        if (entry->target == target[j]) found.emplace_back(&*entry, j);
      }
    }
    for (const auto& [entry, j] : found) sum[j] += entry->probability;
    for (const auto& [entry, j] : found) add(entry->count, static_cast<uint64_t>(entry->probability / sum[j] * kUnit));
  });
  pool.parallel_for(std::ssize(rows), 256, [&](int64_t begin, int64_t end) {
    std::for_each(rows.begin() + begin, rows.begin() + end, normalise);
  });
  normalise(null_row);
}

}  // namespace

void ShortlistTraining::declare(Options& options) {
  options.add("best", best, "Target tokens of a source token at most").range(1, kTargetsKept);
  options.add("frequent", frequent, "How many of the most frequent target tokens are always there").range(0, 1e6);
  options.add("iterations", iterations, "Of the EM algorithm").range(1, 1000);
}

Shortlist train_shortlist(const SentenceStore& pairs, const Vocab& source, const Vocab& target,
                          const ShortlistTraining& settings, ThreadPool& pool) {
  const auto sentences = count_sentences(pairs, source.size(), target.size(), pool);
  auto rows = pair_tokens(pairs, sentences, pool);
  Row null_row;
  for (int32_t f = 0; f < target.size(); ++f) null_row.push_back({f});
  for (int i = 0; i < settings.iterations; ++i) iterate(pairs, rows, null_row, pool);

  auto frequent = highest(sentences.target, static_cast<size_t>(settings.frequent));
  frequent.insert(frequent.end(), {target.eos_id(), target.unk_id()});
  remove_repeated(frequent);
  std::vector<int32_t> begin{0}, ids;
  for (Row& row : rows) {
    std::erase_if(row, [&](const Entry& entry) {
      return entry.probability < kThreshold || std::ranges::binary_search(frequent, entry.target);
    });
    std::vector<float> probabilities;
    for (const Entry& entry : row) probabilities.push_back(entry.probability);
    for (const int32_t i : highest(probabilities, static_cast<size_t>(settings.best)))
      ids.push_back(row[static_cast<size_t>(i)].target);
    begin.push_back(static_cast<int32_t>(ids.size()));
  }
  return {source, target, std::move(begin), std::move(ids), std::move(frequent)};
}

ShortlistFit measure_fit(const Shortlist& shortlist, const SentenceStore& pairs, ThreadPool& pool) {
  ShortlistFit fit;
  fit.pairs = pairs.size();
  for_each_pair(pairs, pool, [&](const std::vector<int32_t>& source, const std::vector<int32_t>& target) {
    const auto candidates = shortlist.candidates(source);
    const auto covered =
        std::ranges::count_if(target, [&](int32_t f) { return std::ranges::binary_search(candidates, f); });
    add<int64_t>(fit.tokens, std::ssize(target));
    add<int64_t>(fit.covered, covered);
    add<int64_t>(fit.candidates, std::ssize(candidates));
  });
  return fit;
}

std::string ShortlistFit::text() const {
  const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  return fmt::format("{:.3f}% of {} target tokens are candidates, of which a sentence has {:.1f}",
                     100 * ratio(covered, tokens), tokens, ratio(candidates, pairs));
}

}  // namespace nmt
