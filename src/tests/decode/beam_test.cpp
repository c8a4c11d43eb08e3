#include "decode/beam.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "random_language_model.h"
#include "tests/catch.h"

using namespace nmt;
using nmt::testing::add_best_tokens;
using nmt::testing::next_tokens;

namespace {

constexpr int32_t kEos = 1;

// The search as its definition says, without dropping anything early.
std::vector<Hypothesis> exhaustive(const SearchOptions& o, int limit, int vocabulary, uint64_t seed) {
  struct Text {
    double log_probability;
    std::vector<int32_t> ids;
  };
  std::vector<Text> live = {{0, {}}}, finished;
  const auto beam = static_cast<size_t>(o.beam);
  for (int step = 0; step < limit; ++step) {
    std::vector<Text> candidates;
    for (const Text& text : live) {
      const auto next = next_tokens(text.ids, vocabulary, seed);
      for (int32_t id = 0; id < vocabulary; ++id) {
        if (id == o.forbidden || (id == kEos && step < o.shortest)) continue;
        candidates.push_back(text);
        candidates.back().ids.push_back(id);
        candidates.back().log_probability += next[static_cast<size_t>(id)];
      }
    }
    std::ranges::sort(candidates, [](const Text& a, const Text& b) {
      return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.ids < b.ids;
    });
    candidates.resize(std::min(candidates.size(), 2 * beam));
    live.clear();
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Text& c = candidates[i];
      if (c.ids.back() == kEos && i < beam) finished.push_back(c);
      if (c.ids.back() != kEos && live.size() < beam) live.push_back(c);
    }
  }
  if (finished.empty()) finished = live;
  std::vector<Hypothesis> result;
  for (const Text& f : finished)
    result.push_back({f.ids, f.log_probability, f.log_probability / o.penalty(static_cast<int64_t>(f.ids.size()))});
  std::ranges::sort(result, [](const Hypothesis& a, const Hypothesis& b) {
    return a.score != b.score ? a.score > b.score : a.ids < b.ids;
  });
  result.resize(std::min(result.size(), o.n_best ? beam : 1));
  for (auto& h : result)
    if (h.ids.back() == kEos) h.ids.pop_back();
  return result;
}

std::vector<Hypothesis> search(const SearchOptions& o, int limit, int vocabulary, uint64_t seed, int& rows,
                               uint64_t key = 0) {
  Beam beam(o, limit, kEos, key);
  const int k = std::min(o.candidates(), vocabulary);
  while (beam.live() > 0) {
    std::vector<float> values;
    std::vector<int32_t> ids;
    for (int32_t h = 0; h < beam.live(); ++h) {
      ++rows;
      add_best_tokens(next_tokens(beam.ids(h), vocabulary, seed), k, values, ids);
    }
    beam.advance(values, ids, k);
  }
  return beam.best();
}

}  // namespace

TEST_CASE("dropping hopeless hypotheses loses nothing") {
  int rows = 0, all_rows = 0;
  for (const int beam : {1, 2, 4, 7})
    for (const double alpha : {0.0, 0.6, 1.5})
      for (const bool n_best : {false, true})
        for (const int vocabulary : {2, 5, 12})
          for (uint64_t seed = 1; seed <= 5; ++seed) {
            SearchOptions o{.beam = beam, .alpha = alpha, .n_best = n_best};
            if (seed == 5) o.normalize = 0.8;
            if (seed % 2 == 0) o.forbidden = 0;
            o.shortest = vocabulary == 2 ? 0 : static_cast<int>(seed) - 1;
            const int limit = 3 + static_cast<int>(seed) * 3;
            const auto found = search(o, limit, vocabulary, seed, rows),
                       wanted = exhaustive(o, limit, vocabulary, seed);
            all_rows += limit * beam;
            REQUIRE(found.size() == wanted.size());
            for (size_t i = 0; i < found.size(); ++i) {
              CHECK(found[i].ids == wanted[i].ids);
              CHECK(found[i].log_probability == wanted[i].log_probability);
              CHECK(found[i].score == wanted[i].score);
            }
          }
  CHECK(rows < all_rows / 2);
}

TEST_CASE("equal hypotheses are ordered by their ids") {
  const bool n_best = GENERATE(false, true);
  const SearchOptions o{.beam = 2, .alpha = 0, .n_best = n_best};
  Beam beam(o, 2, kEos);
  beam.advance(std::vector<float>{-1, -1, -1, -1}, std::vector<int32_t>{0, 2, 3, 4}, 4);
  REQUIRE(beam.live() == 2);
  CHECK(beam.ids(0) == std::vector<int32_t>{0});
  CHECK(beam.ids(1) == std::vector<int32_t>{2});
  // Of the second one's tokens the better two go on first; its </s> equals that of the first one.
  beam.advance(std::vector<float>{-1, -2, -3, -4, -1, -2, -3, -4}, std::vector<int32_t>{1, 0, 2, 3, 1, 0, 2, 3}, 4);
  CHECK(beam.live() == 0);
  const auto best = beam.best();
  REQUIRE(best.size() == (n_best ? 2u : 1u));
  CHECK(best[0].ids == std::vector<int32_t>{0});
  if (n_best) CHECK(best[1].ids == std::vector<int32_t>{2});
}

TEST_CASE("without any </s> the live hypotheses are the result") {
  const SearchOptions o{.beam = 2, .alpha = 1};
  Beam beam(o, 1, kEos);
  beam.advance(std::vector<float>{-1, -2, -3, -4}, std::vector<int32_t>{5, 0, 2, 3}, 4);
  CHECK(beam.live() == 0);
  const auto best = beam.best();
  REQUIRE(best.size() == 1);
  CHECK(best[0].ids == std::vector<int32_t>{5});
  CHECK(best[0].score == -1);  // ((5 + 1) / 6)^1
}

TEST_CASE("a hypothesis ends after so many tokens, or before where nothing else is possible") {
  const int sampling = GENERATE(0, 1);
  const SearchOptions o{.beam = 1, .alpha = 0, .shortest = 2, .sampling = sampling};
  const int k = o.candidates();
  REQUIRE(k == 2);
  const std::vector<int32_t> ids = {kEos, 5};
  Beam beam(o, 9, kEos);
  for (int step = 0; step < 2; ++step) beam.advance(std::vector<float>{-0.125f, -2}, ids, k);
  CHECK(beam.ids(0) == std::vector<int32_t>{5, 5});
  beam.advance(std::vector<float>{-0.125f, -2}, ids, k);
  REQUIRE(beam.live() == 0);
  CHECK(beam.best()[0].ids == std::vector<int32_t>{5, 5});
  CHECK(beam.best()[0].log_probability == -4.125);

  Beam other(o, 9, kEos);
  other.advance(std::vector<float>{-0.125f, -INFINITY}, ids, k);
  REQUIRE(other.live() == 0);
  CHECK(other.best()[0].ids.empty());
}

TEST_CASE("a probability that is not a number is an error, and none at all") {
  const int sampling = GENERATE(0, 2);
  const SearchOptions o{.beam = 1, .sampling = sampling};
  Beam beam(o, 3, kEos);
  CHECK_THROWS_AS(beam.advance(std::vector<float>{NAN, NAN}, std::vector<int32_t>{2, 3}, 2), BrokenModel);
  if (sampling == 0)
    CHECK_THROWS_AS(beam.advance(std::vector<float>{-1, NAN}, std::vector<int32_t>{2, 3}, 2), BrokenModel);
  CHECK_THROWS_AS(beam.advance(std::vector<float>{-INFINITY, -INFINITY}, std::vector<int32_t>{2, 3}, 2), BrokenModel);
}

TEST_CASE("tokens are drawn by the probabilities of the most probable ones that are allowed") {
  constexpr int kKeys = 20000;
  const bool forbids = GENERATE(false, true);
  const SearchOptions o{.beam = 2, .forbidden = forbids ? 3 : -1, .sampling = 3};
  const std::vector<double> probabilities = {0.5, 0.2, 0.1, 0.08, 0.12};
  std::vector<float> values;
  for (const double p : probabilities) values.push_back(static_cast<float>(std::log(p)));
  values.back() = -INFINITY;
  const std::vector<int32_t> ids = {7, 3, 5, 9, 8};
  const std::vector<int32_t> drawn = forbids ? std::vector{7, 5, 9} : std::vector{7, 3, 5};
  const std::vector<double> wanted =
      forbids ? std::vector{0.5 / 0.68, 0.1 / 0.68, 0.08 / 0.68} : std::vector{0.625, 0.25, 0.125};
  std::vector<int> counts(3);
  int equal = 0;
  for (uint64_t key = 0; key < kKeys; ++key) {
    Beam beam(o, 3, kEos, key);
    beam.advance(values, ids, 5);
    REQUIRE(beam.live() == 2);
    for (int32_t h = 0; h < 2; ++h) {
      const auto found = std::ranges::find(drawn, beam.last(h).id);
      REQUIRE(found != drawn.end());
      ++counts[static_cast<size_t>(found - drawn.begin())];
    }
    equal += beam.last(0).id == beam.last(1).id;
  }
  // Within four standard deviations, each alone and both together.
  const auto near = [](int count, int of, double p) {
    return std::fabs(count - of * p) < 4 * std::sqrt(of * p * (1 - p));
  };
  double pairs = 0;
  for (size_t i = 0; i < 3; ++i) {
    INFO("token " << drawn[i]);
    CHECK(near(counts[i], 2 * kKeys, wanted[i]));
    pairs += wanted[i] * wanted[i];
  }
  CHECK(near(equal, kKeys, pairs));
}

TEST_CASE("a token may be drawn however much more probable a forbidden one is") {
  const SearchOptions options{.beam = 2, .forbidden = 3, .sampling = 2};
  Beam beam(options, 3, kEos);
  beam.advance(std::vector<float>{0, -800, -INFINITY}, std::vector<int32_t>{3, 7, 5}, 3);
  REQUIRE(beam.live() == 2);
  for (const int32_t h : {0, 1}) CHECK(beam.last(h).id == 7);
}

TEST_CASE("what is drawn depends on seed and key, and has the probability of its tokens") {
  constexpr int kVocabulary = 12, kLimit = 30;
  SearchOptions o{.beam = 30, .alpha = 0, .n_best = true, .sampling = 12};
  uint64_t language = 1;
  int rows = 0, differ_by_key = 0, differ_by_seed = 0;
  const auto run = [&](uint64_t key) { return search(o, kLimit, kVocabulary, language, rows, key); };
  for (uint64_t key = 1; key <= 50; ++key) {
    language = key;
    o.seed = 1;
    const auto found = run(key), again = run(key), other = run(key + 50);
    o.seed = key % 2 == 0 ? 2 : 1 + (uint64_t{1} << 32);  // either half of its bits counts
    const auto reseeded = run(key);
    o.seed = 1;
    o.n_best = false;
    const auto best = run(key);
    o.n_best = true;
    REQUIRE(found.size() == 30);
    REQUIRE(best.size() == 1);
    CHECK(best[0].ids == found[0].ids);
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].ids == again[i].ids);
      if (i > 0) CHECK(found[i].score <= found[i - 1].score);
      std::vector<int32_t> text;
      double sum = 0;
      for (size_t t = 0; t < std::min<size_t>(found[i].ids.size() + 1, kLimit); ++t) {
        const int32_t id = t < found[i].ids.size() ? found[i].ids[t] : kEos;
        sum += next_tokens(text, kVocabulary, language)[static_cast<size_t>(id)];
        text.push_back(id);
      }
      CHECK(found[i].log_probability == Approx(sum));
    }
    differ_by_key += found.back().ids != other.back().ids;
    differ_by_seed += found.back().ids != reseeded.back().ids;
  }
  CHECK(differ_by_key > 25);
  CHECK(differ_by_seed > 40);
}
