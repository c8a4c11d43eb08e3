#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/prefetch.h"
#include "tests/catch.h"
#include "tests/text/corpus_fixture.h"
#include "text/batch_stream.h"
#include "text/shuffle.h"

using namespace nmt;

namespace {

std::vector<TrainingBatch> take_epochs(BatchStream& stream, int epochs) {
  std::vector<TrainingBatch> batches;
  while (epochs > 0) {
    batches.push_back(stream.next());
    epochs -= batches.back().ends_epoch();
  }
  return batches;
}

std::vector<TrainingBatch> take_epochs(const RandomPairs& data, uint64_t seed, int epochs, int threads = 1) {
  BatchStream stream(data.corpus(threads), data.options, seed);
  return take_epochs(stream, epochs);
}

std::vector<int64_t> pair_order(const std::vector<TrainingBatch>& batches) {
  std::vector<int64_t> order;
  for (const auto& item : batches) order.insert(order.end(), item.batch.pairs.begin(), item.batch.pairs.end());
  return order;
}

// Sentences of these source and target lengths, </s> included.
Batch batch_of(const std::vector<std::pair<int, int>>& lengths) {
  Batch batch;
  for (const auto& [source, target] : lengths) {
    batch.source.resize(batch.source.size() + static_cast<size_t>(source), 10 + source);
    batch.target.resize(batch.target.size() + static_cast<size_t>(target), 20 + target);
    batch.close_pair(batch.sentences());
  }
  return batch;
}

}  // namespace

TEST_CASE("padding is what it costs by hand") {
  // Source: 3 * 5 places for 5 + 3 + 4 words; target: 3 * 7 for 2 + 7 + 6.
  const Batch batch = batch_of({{5, 2}, {3, 7}, {4, 6}});
  CHECK(batch.sentences() == 3);
  CHECK(batch.source_words() == 12);
  CHECK(batch.target_words() == 15);
  CHECK(batch.source_padding() == 3);
  CHECK(batch.target_padding() == 6);
  BatchCounts counts;
  CHECK(counts.padded_share() == 0.0);
  counts.add(batch);
  CHECK(counts.padded_share() == Approx(9.0 / 36.0));
  counts.add(batch_of({{2, 2}, {2, 2}}));
  CHECK(counts.padded_share() == Approx(9.0 / 44.0));
  CHECK(counts.batches == 2);
  CHECK(counts.sentences == 5);
  CHECK(Batch{}.source_padding() == 0);
}

TEST_CASE("parts of a batch are its pairs in their order, of about as many tokens each") {
  const Batch batch = batch_of({{5, 2}, {3, 7}, {4, 6}, {9, 9}, {1, 1}, {2, 2}, {30, 30}, {1, 2}});
  for (const int64_t n : {1, 2, 3, 8, 20}) {
    Batch all;
    for (int64_t i = 0; i < n; ++i) {
      const Batch part = batch.part(i, n);
      for (size_t s = 0; s < part.pairs.size(); ++s) {
        all.source.insert(all.source.end(), part.source.begin() + part.source_begin[s],
                          part.source.begin() + part.source_begin[s + 1]);
        all.target.insert(all.target.end(), part.target.begin() + part.target_begin[s],
                          part.target.begin() + part.target_begin[s + 1]);
        all.close_pair(part.pairs[s]);
      }
      // No further from its share than a pair's tokens.
      const int64_t words = part.source_words() + part.target_words(), whole = 114;
      CHECK(std::abs(words - whole / n) <= 60);
    }
    CHECK(all == batch);
  }
  CHECK(batch_of({{1, 1}, {1, 1}, {1, 1}, {1, 1}}).part(1, 2).pairs == std::vector<int64_t>{2, 3});
}

TEST_CASE("no batch is larger than the largest") {
  const RandomPairs data(3000, 20, GENERATE(1, 2));
  DataOptions o = data.options;
  o.mini_batch = GENERATE(0, 1, 7, 5000);
  o.mini_batch_words = GENERATE(60, 500, 100000);
  const auto corpus = std::make_shared<Corpus>(o, NumberVocab::make(), NumberVocab::make(), 1);
  const auto longest = [](const std::vector<int32_t>& begin) {
    int32_t most = 0;
    for (size_t s = 1; s < begin.size(); ++s) most = std::max(most, begin[s] - begin[s - 1]);
    return most;
  };
  for (const int64_t parts : {1, 3}) {
    INFO("parts " << parts);
    const Batch largest = largest_batch(*corpus, o.limits(), parts);
    CHECK(largest.sentences() <= std::min<int64_t>(o.limits().sentences, corpus->size()));
    CHECK(largest.source_begin.back() == largest.source_words());
    BatchStream stream(corpus, o, 3);
    int64_t source = 0, target = 0, larger = 0;
    for (const auto& item : take_epochs(stream, 2))
      for (int64_t i = 0; i < parts; ++i) {
        const Batch part = item.batch.part(i, parts);
        source = std::max(source, part.source_words());
        target = std::max(target, part.target_words());
        larger += part.sentences() > largest.sentences() ||
                  longest(part.source_begin) > longest(largest.source_begin) ||
                  longest(part.target_begin) > longest(largest.target_begin);
      }
    CHECK(larger == 0);
    CHECK(source <= largest.source_words());
    CHECK(target <= largest.target_words());
    CHECK(largest.source_words() <= 2 * source + 20);
  }
}

TEST_CASE("batches are cut at each of the limits") {
  const std::vector<PairLength> lengths{{3, 1}, {1, 1}, {1, 4}, {9, 9}, {1, 1}};
  const std::vector<uint32_t> order{0, 1, 2, 3, 4};
  using Runs = std::vector<std::pair<uint32_t, uint32_t>>;
  CHECK(cut_batches(lengths, order, {100, 100, 100}) == Runs{{0, 5}});
  CHECK(cut_batches(lengths, order, {2, 100, 100}) == Runs{{0, 2}, {2, 4}, {4, 5}});
  CHECK(cut_batches(lengths, order, {100, 6, 100}) == Runs{{0, 2}, {2, 3}, {3, 4}, {4, 5}});
  CHECK(cut_batches(lengths, order, {100, 100, 9}) == Runs{{0, 3}, {3, 4}, {4, 5}});
  CHECK(cut_batches({}, {}, {1, 1, 1}).empty());
  CHECK(order_by_length(std::vector<PairLength>{{3, 2}, {1, 3}, {5, 3}, {1, 2}, {2, 1}, {1, 2}}) ==
        std::vector<uint32_t>{3, 5, 4, 0, 1, 2});
}

TEST_CASE("a permutation visits everything once, for any size") {
  for (const uint64_t n : {1, 2, 3, 5, 16, 17, 255, 1000, 65537}) {
    const Permutation permutation(n, 11, 4);
    std::vector<int> seen(n);
    for (uint64_t i = 0; i < n; ++i) ++seen.at(permutation(i));
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<int64_t>(n));
  }
  const Permutation large(uint64_t{1} << 40, 1, 2);
  CHECK(large(12345) < uint64_t{1} << 40);
  CHECK(large(12345) == 0x4822c2fe3du);  // trainings that go on rely on the same order in every version
  CHECK(Permutation(UINT64_MAX, 1, 2)(0) != Permutation(UINT64_MAX, 1, 3)(0));
}

TEST_CASE("permutations of a few elements are all equally likely") {
  for (const uint64_t n : {3, 4, 5}) {
    constexpr int kEach = 500;
    int kinds = 1;
    for (uint64_t k = 2; k <= n; ++k) kinds *= static_cast<int>(k);
    std::map<std::vector<uint64_t>, int> counts;
    for (int stream = 0; stream < kEach * kinds; ++stream) {
      const Permutation permutation(n, 99, static_cast<uint64_t>(stream));
      std::vector<uint64_t> order(n);
      for (uint64_t i = 0; i < n; ++i) order[i] = permutation(i);
      ++counts[order];
    }
    CHECK(counts.size() == static_cast<size_t>(kinds));
    double chi_squared = 0;
    for (const auto& [order, count] : counts) chi_squared += (count - kEach) * (count - kEach) / double{kEach};
    const double freedom = kinds - 1;
    CHECK(chi_squared < freedom + 5 * std::sqrt(2 * freedom));
  }
}

TEST_CASE("equal seeds give equal batches, whatever the threads and the place of the corpus") {
  RandomPairs data(3000, 30, 1);
  data.options.mini_batch_words = 600;
  data.options.maxi_batch = 20;
  const auto reference = take_epochs(data, 7, 2);
  CHECK(take_epochs(data, 7, 2, 4) == reference);
  CHECK(pair_order(take_epochs(data, 8, 2)) != pair_order(reference));
  data.options.shuffle_memory = 0;
  CHECK(take_epochs(data, 7, 2, 3) == reference);

  BatchStream stream(data.corpus(), data.options, 7);
  CHECK(std::ranges::count(reference, 3u, [](const auto& item) { return item.next.window; }) > 0);
  CHECK(pair_order(take_epochs(stream, 1)) != pair_order(take_epochs(stream, 1)));
}

TEST_CASE("every pair comes once an epoch, within the limits") {
  RandomPairs data(2000, 40, 2);
  const std::string shuffle = GENERATE("data", "batches", "none");
  data.options.shuffle = shuffle;
  data.options.maxi_batch = GENERATE(1, 7, 1000);
  SECTION("source and target words") {
    data.options.batch_source_words = 300;
    data.options.batch_target_words = 450;
  }
  SECTION("words and sentences") {
    data.options.mini_batch = 10;
    data.options.mini_batch_words = 350;
  }
  const BatchLimits limits = data.options.limits();
  BatchStream stream(data.corpus(), data.options, 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> seen(data.pairs.size());
    bool within = true, equal = true;
    for (const auto& [batch, next] : take_epochs(stream, 1)) {
      within = within && batch.sentences() >= 1 && batch.sentences() <= limits.sentences &&
               batch.source_words() <= limits.source_words && batch.target_words() <= limits.target_words;
      for (size_t i = 0; i < batch.pairs.size(); ++i) {
        equal = equal && data.holds(batch, i);
        ++seen[static_cast<size_t>(batch.pairs[i])];
      }
    }
    CHECK(within);
    CHECK(equal);
    CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<int64_t>(seen.size()));
  }
}

TEST_CASE("the kinds of shuffling differ as they say") {
  RandomPairs data(1000, 20, 4);
  data.options.mini_batch_words = 200;
  data.options.maxi_batch = 5;
  const auto windows_in_order = [&](const std::vector<TrainingBatch>& batches) {
    int64_t highest_before = -1, highest = -1;
    for (const auto& [batch, next] : batches) {
      for (const int64_t pair : batch.pairs) {
        if (pair < highest_before) return false;
        highest = std::max(highest, pair);
      }
      if (next.batch == 0) highest_before = highest;
    }
    return true;
  };
  const auto length_grows = [](const std::vector<TrainingBatch>& batches) {
    int32_t last = 0;
    for (const auto& [batch, next] : batches) {
      const int32_t first = std::max(batch.source_begin[1], batch.target_begin[1]);
      if (first < last) return false;
      last = next.batch == 0 ? 0 : first;
    }
    return true;
  };
  const auto all = take_epochs(data, 1, 1);
  CHECK(!windows_in_order(all));
  CHECK(!length_grows(all));
  // Each epoch has pairs of its own in its first window.
  BatchStream stream(data.corpus(), data.options, 1);
  const auto first_window = [&] {
    std::set<int64_t> pairs;
    bool is_first = true;
    for (const auto& [batch, next] : take_epochs(stream, 1)) {
      if (is_first) pairs.insert(batch.pairs.begin(), batch.pairs.end());
      is_first = is_first && next.batch != 0;
    }
    return pairs;
  };
  const auto window = first_window();
  CHECK(first_window() != window);
  data.options.shuffle = "batches";
  const auto batches = take_epochs(data, 1, 1);
  CHECK(windows_in_order(batches));
  CHECK(!length_grows(batches));
  BatchStream epochs(data.corpus(), data.options, 1);  // each orders the same batches in a way of its own
  CHECK(pair_order(take_epochs(epochs, 1)) != pair_order(take_epochs(epochs, 1)));
  data.options.shuffle = "none";
  const auto none = take_epochs(data, 1, 1);
  CHECK(windows_in_order(none));
  CHECK(length_grows(none));
  CHECK(pair_order(take_epochs(data, 2, 1)) == pair_order(none));
}

TEST_CASE("pairs of a batch are of about equal length") {
  RandomPairs data(20000, 50, 9);
  data.options.mini_batch_words = 4000;
  BatchCounts sorted, unsorted;
  for (const auto& item : take_epochs(data, 1, 1)) sorted.add(item.batch);
  CHECK(sorted.padded_share() < 0.2);  // the lengths of the sides are independent here: worse than any real text
  data.options.maxi_batch = 1;
  for (const auto& item : take_epochs(data, 1, 1)) unsorted.add(item.batch);
  CHECK(unsorted.padded_share() > 2 * sorted.padded_share());
}

TEST_CASE("a stream continues from any position as if it had never stopped") {
  for (uint64_t round = 0; round < 6; ++round) {
    Random random(round, 5);
    RandomPairs data(static_cast<int64_t>(1 + random.below(700)), static_cast<int64_t>(1 + random.below(30)), round);
    data.options.mini_batch_words = static_cast<int64_t>(31 + random.below(400));
    data.options.maxi_batch = static_cast<int64_t>(1 + random.below(12));
    data.options.shuffle_memory = round % 2 == 0 ? 0 : 100;
    const auto corpus = data.corpus();
    BatchStream stream(corpus, data.options, round);
    const auto all = take_epochs(stream, 3);
    Position position;
    bool equal = true;
    for (size_t i = 0; i < all.size(); ++i) {
      BatchStream resumed(corpus, data.options, round, position);
      for (size_t k = i; k < std::min(i + 3, all.size()); ++k) equal = equal && resumed.next() == all[k];
      position = all[i].next;
    }
    CHECK(equal);
    CHECK(position == Position{3, 0, 0});
  }
}

TEST_CASE("a position of other data is refused") {
  RandomPairs data(100, 10, 1);
  const auto corpus = data.corpus();
  CHECK_NOTHROW(BatchStream(corpus, data.options, 1, {5, 0, 0}));
  CHECK_THROWS_AS(BatchStream(corpus, data.options, 1, {0, 1, 0}), UserError);
  CHECK_THROWS_AS(BatchStream(corpus, data.options, 1, {0, 0, 1}), UserError);
  CHECK_THROWS_AS(BatchStream(corpus, data.options, 1, {0, UINT64_MAX, 0}), UserError);
}

TEST_CASE("prefetching keeps the order under any delays") {
  for (uint64_t round = 0; round < 4; ++round) {
    Random random(round);
    const auto pause = [](uint64_t k) { std::this_thread::sleep_for(std::chrono::microseconds(k)); };
    int produced = 0;
    Prefetch<int> prefetch(
        [&, delays = Random(round, 1)]() mutable {
          pause(delays.below(300));
          return produced++;
        },
        round);
    bool equal = true;
    for (int i = 0; i < 200; ++i) {
      equal = equal && prefetch.next() == i;
      pause(random.below(300));
    }
    CHECK(equal);
    CHECK(prefetch.wait_seconds() >= 0);
  }
}

TEST_CASE("prefetching runs ahead, but not further than it may") {
  std::atomic<int> produced = 0;
  Prefetch<int> prefetch([&] { return produced++; }, 3);
  while (produced < 4) std::this_thread::yield();  // three wait in the queue, one at its door
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(produced == 4);
  CHECK(prefetch.next() == 0);
}

TEST_CASE("prefetching counts the time it lets the consumer wait") {
  Prefetch<int> prefetch(
      [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return 1;
      },
      1);
  for (int i = 0; i < 3; ++i) CHECK(prefetch.next() == 1);
  CHECK(prefetch.wait_seconds() > 0.02);
}

TEST_CASE("an exception of the producer reaches the consumer in its place") {
  int produced = 0;
  Prefetch<int> prefetch(
      [&] {
        if (produced == 3) fail("the disk is gone");
        return produced++;
      },
      8);
  for (int i = 0; i < 3; ++i) CHECK(prefetch.next() == i);
  CHECK_THROWS_AS(prefetch.next(), Error);
  CHECK_THROWS_AS(prefetch.next(), Error);
}

TEST_CASE("prefetching stops at any time") {
  for (uint64_t i = 0; i < 300; ++i) {
    Random random(i, 9);
    Prefetch<std::vector<int>> prefetch([] { return std::vector<int>(100); }, random.below(5));
    for (uint64_t k = random.below(6); k > 0; --k) CHECK(prefetch.next().size() == 100);
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.below(200)));
  }
}

TEST_CASE("prefetched batches of a corpus are the stream's") {
  RandomPairs data(2000, 20, 12);
  data.options.mini_batch_words = 300;
  data.options.shuffle_memory = 0;
  const auto corpus = data.corpus(3);
  BatchStream plain(corpus, data.options, 4);
  const auto expected = take_epochs(plain, 2);
  Prefetch<TrainingBatch> prefetch([stream = BatchStream(corpus, data.options, 4)]() mutable { return stream.next(); },
                                   8);
  bool equal = true;
  for (const auto& item : expected) equal = equal && prefetch.next() == item;
  CHECK(equal);
}

TEST_CASE("a real corpus: Multi30k") {
  const char* folder = std::getenv("NMT_DATA");
  const std::string stem = folder ? fmt::format("{}/multi30k-bpe/train", folder) : "";
  if (!folder || !std::filesystem::exists(stem + ".en")) {
    WARN("SKIPPED: 'a real corpus: Multi30k' needs NMT_DATA with multi30k-bpe/train.en and train.de");
    return;
  }
  DataOptions options{.train_sets = {stem + ".en", stem + ".de"}, .mini_batch_words = 4096};
  const auto corpus = std::make_shared<const Corpus>(options, NumberVocab::make(), NumberVocab::make(), 2);
  CHECK(corpus->counts().read == 29000);
  CHECK(corpus->counts().kept + corpus->counts().empty + corpus->counts().too_long == 29000);
  BatchStream stream(corpus, options, 1);
  BatchCounts counts;
  for (const auto& item : take_epochs(stream, 1)) counts.add(item.batch);
  CHECK(counts.sentences == corpus->size());
  CHECK(counts.source_words == corpus->counts().source_words);
  CHECK(counts.target_words == corpus->counts().target_words);
  CHECK(counts.padded_share() < 0.05);
}
