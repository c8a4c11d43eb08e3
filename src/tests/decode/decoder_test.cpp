#include <algorithm>
#include <cmath>
#include <numeric>

#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/compute_types.h"

using namespace nmt;

namespace {

// All translations, in the order of the sources.
std::vector<std::vector<Hypothesis>> translate(Decoder& decoder, std::span<const std::vector<int32_t>> sources,
                                               const SearchLimits& limits = {}) {
  std::vector<std::vector<Hypothesis>> all(sources.size());
  decoder.translate(sources, limits, [&](size_t i, std::vector<Hypothesis> best) {
    CHECK(all[i].empty());
    all[i] = std::move(best);
  });
  return all;
}

}  // namespace

TEST_CASE("scores of the search are those of its translations as given targets") {
  const auto beam = GENERATE(1, 4, 20);
  TestModel model(5);
  Runtime runtime(2);
  const Scorer scorers[] = {model.scorer()};
  Decoder decoder(scorers, runtime, {.beam = beam, .max_extra = 6, .n_best = true});
  const auto sources = random_sources(30, 12);
  const auto found = translate(decoder, sources);
  REQUIRE(found.size() == sources.size());
  std::vector<IdPair> pairs;
  std::vector<Hypothesis> hypotheses;
  std::vector<bool> cut;  // at the limit, without </s>
  size_t longest = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    REQUIRE(!found[s].empty());
    CHECK(found[s].size() <= static_cast<size_t>(beam));
    for (const auto& h : found[s]) {
      longest = std::max(longest, h.ids.size());
      CHECK(h.ids.size() <= sources[s].size() - 1 + 6);
      cut.push_back(h.ids.size() == sources[s].size() - 1 + 6);
      pairs.push_back({sources[s], h.ids});
      pairs.back().target.push_back(1);
      hypotheses.push_back(h);
    }
  }
  CHECK(longest > 6);
  const auto scores = decoder.score(pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    REQUIRE(scores[i].size() == pairs[i].target.size());
    const std::span counted(scores[i].data(), scores[i].size() - (cut[i] ? 1 : 0));
    const double sum = std::accumulate(counted.begin(), counted.end(), 0.0);
    CHECK(hypotheses[i].log_probability == Approx(sum).epsilon(1e-5).margin(1e-5));
    CHECK(hypotheses[i].score ==
          Approx(sum / decoder.options().penalty(static_cast<int64_t>(counted.size()))).epsilon(1e-5).margin(1e-5));
  }
}

TEST_CASE("a translation does not depend on the others under way") {
  TestModel model(13);
  const DType compute = GENERATE(from_range(nmt::testing::compute_types()));
  Runtime runtime(2, compute, GENERATE(false, true));
  const Scorer scorers[] = {model.scorer()};
  const int sampling = GENERATE(0, 6);
  Decoder decoder(scorers, runtime, {.max_extra = 10, .n_best = true, .sampling = sampling});
  auto sources = random_sources(40, 20);
  sources.push_back({1});
  const auto together = translate(decoder, sources);
  // Others take the places of those that end, in any order of lengths.
  for (const SearchLimits& limits : {SearchLimits{.sentences = 1}, {.sentences = 5}, {.sentences = 9, .tokens = 60}}) {
    const auto mixed = translate(decoder, sources, limits);
    for (size_t s = 0; s < sources.size(); ++s) {
      REQUIRE(mixed[s].size() == together[s].size());
      for (size_t i = 0; i < mixed[s].size(); ++i) CHECK(mixed[s][i].ids == together[s][i].ids);
    }
  }
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto alone = translate(decoder, std::span(sources).subspan(s, 1));
    REQUIRE(alone[0].size() == together[s].size());
    for (size_t i = 0; i < alone[0].size(); ++i) {
      CHECK(alone[0][i].ids == together[s][i].ids);
      CHECK(alone[0][i].score == Approx(together[s][i].score).epsilon(1e-5));
    }
  }
  CHECK(translate(decoder, {}).empty());
  CHECK(decoder.score({}).empty());
}

TEST_CASE("threads that work together take as many tokens as they would apart") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  const auto sources = random_sources(4, 20);
  size_t longest = 0;
  for (const auto& source : sources) longest = std::max(longest, source.size());
  const auto steps = [&](int threads) {
    Runtime runtime(threads);
    Decoder decoder(scorers, runtime, {.max_extra = 10});
    runtime.profile = Profile(true);
    translate(decoder, sources, {.tokens = static_cast<int64_t>(longest) * 2});
    return runtime.profile.op("project_top_k").calls;
  };
  CHECK(steps(2) == steps(3));  // all
  CHECK(steps(2) < steps(1));
}

TEST_CASE("an ensemble averages log-probabilities by weight") {
  TestModel a(13), b(12);
  Runtime runtime(1);
  const auto sources = random_sources(10, 8);
  const auto run = [&](std::vector<Scorer> scorers) {
    Decoder decoder(scorers, runtime, {.beam = 3, .max_extra = 5, .n_best = true});
    return translate(decoder, sources);
  };
  const auto one = run({a.scorer()}), same = run({a.scorer(0.2), a.scorer(7)}), both = run({a.scorer(3), b.scorer(1)});
  bool differs = false;
  for (size_t s = 0; s < sources.size(); ++s) {
    REQUIRE(one[s].size() == same[s].size());
    for (size_t i = 0; i < one[s].size(); ++i) {
      CHECK(one[s][i].ids == same[s][i].ids);
      CHECK(one[s][i].score == Approx(same[s][i].score).epsilon(1e-4));
    }
    differs |= one[s][0].ids != both[s][0].ids;
    const auto& best = both[s][0];
    if (best.ids.size() == sources[s].size() + 4) continue;  // without </s>
    std::vector<IdPair> pair = {{sources[s], best.ids}};
    pair[0].target.push_back(1);
    const auto score = [&](const Scorer& scorer) {
      const auto values = Decoder(std::span(&scorer, 1), runtime, {}).score(pair)[0];
      return std::accumulate(values.begin(), values.end(), 0.0);
    };
    CHECK(best.log_probability == Approx(0.75 * score(a.scorer()) + 0.25 * score(b.scorer())).epsilon(1e-4));
  }
  CHECK(differs);
}

TEST_CASE("translations of an ensemble end with the positions of the model that knows the fewest") {
  const auto model = [](int positions, uint64_t seed) {
    ModelConfig config = TestModel::config(12);
    config.train_positions = true;
    config.max_positions = positions;
    return TestModel(seed, config);
  };
  TestModel few = model(6, 13), many = model(20, 12);
  Runtime runtime(1);
  for (const std::vector<Scorer>& scorers : {std::vector{few.scorer(), many.scorer()}, {many.scorer(), few.scorer()}}) {
    Decoder decoder(scorers, runtime, {.max_extra = 15});
    CHECK(decoder.longest() == 6);
    size_t longest = 0;
    for (const auto& found : translate(decoder, random_sources(20, 5)))
      longest = std::max(longest, found[0].ids.size());
    CHECK(longest == 6);
  }
}

TEST_CASE("bf16 stays near f32") {
  if (nmt::testing::compute_types().back() != DType::kBF16) return;
  TestModel model(13);
  const auto sources = random_sources(20, 10);
  std::vector<IdPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, sources[pairs.size() / 2]});
  Runtime narrow(1, DType::kBF16), wide(1);
  const Scorer scorers[] = {model.scorer()}, twice[] = {model.scorer(), model.scorer()};
  const auto a = Decoder(scorers, narrow, {}).score(pairs), b = Decoder(scorers, wide, {}).score(pairs);
  double difference = 0, count = 0;
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t t = 0; t < a[i].size(); ++t, ++count) difference += std::abs(a[i][t] - b[i][t]);
  CHECK(difference / count < 0.1);
  CHECK(difference / count > 1e-4);  // it is bf16
  // The search in bf16 against bf16 scores; an ensemble of a model with itself changes the products' rounding only.
  const SearchOptions o{.max_extra = 5};
  Decoder one(scorers, narrow, o), ensemble(twice, narrow, o);
  const auto found = translate(one, sources), again = translate(ensemble, sources);
  for (size_t s = 0; s < sources.size(); ++s) {
    CHECK(std::isfinite(found[s][0].score));
    CHECK(found[s][0].score == Approx(again[s][0].score).epsilon(0.05).margin(0.1));
  }
}

TEST_CASE("int8 stays near f32") {
  TestModel model(13);
  const auto sources = random_sources(20, 10);
  std::vector<IdPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, sources[pairs.size() / 2]});
  Runtime bytes(1, DType::kF32, true), wide(1);
  const Scorer scorers[] = {model.scorer()};
  const auto a = Decoder(scorers, bytes, {}).score(pairs), b = Decoder(scorers, wide, {}).score(pairs);
  double difference = 0, count = 0;
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t t = 0; t < a[i].size(); ++t, ++count) difference += std::abs(a[i][t] - b[i][t]);
  CHECK(difference / count < 0.1);
  CHECK(difference / count > 1e-4);  // it is int8
}

TEST_CASE("few sentences are translated by all threads, whatever the batches") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  Runtime runtime(2);
  Decoder decoder(scorers, runtime, {});
  translate(decoder, random_sources(1, 5), {.sentences = GENERATE(1, 2, 64)});
  CHECK(runtime.profile.seconds("waiting") == 0);  // for threads that work apart
}

TEST_CASE("a thread that ends before another one waits") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  Runtime runtime(2);
  Decoder decoder(scorers, runtime, {.max_extra = 1});
  std::vector<std::vector<int32_t>> sources(200, {1});
  for (size_t i = 0; i < sources.size(); i += 2) sources[i].insert(sources[i].begin(), 30, 5);  // those of one thread
  Profile& profile = runtime.profile;
  profile.enter("test");
  const double start = profile.seconds("start"), pool = runtime.pool().waiting();
  translate(decoder, sources, {.sentences = 4});
  profile.enter("start");
  const double waiting = profile.seconds("waiting"), working = profile.seconds("encoder") + profile.seconds("decoder");
  CHECK(waiting > 0.5 * working);
  CHECK(profile.seconds("start") - start < 0.1 * waiting);
  CHECK(profile.waiting + runtime.pool().waiting() - pool == Approx(2 * waiting).epsilon(0.25));
}

TEST_CASE("a model that gives no probabilities is an error, with a shortlist too") {
  TestModel model(13);
  const auto [models, shortlist] =
      GENERATE(std::pair<size_t, bool>(1, false), std::pair<size_t, bool>(1, true), std::pair<size_t, bool>(2, false));
  for (float& x : model.model.parameters.values()) x = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Scorer> scorers(models, model.scorer());
  const auto vocab = word_vocab();
  const Shortlist list(*vocab, *vocab, std::vector<int32_t>(13, 0), {}, {0, 1, 5, 9});
  Runtime runtime(2);
  const auto run = [&] {
    Decoder decoder(scorers, runtime, {}, shortlist ? &list : nullptr);
    translate(decoder, random_sources(4, 5));
  };
  CHECK_THROWS_AS(run(), Error);
}

TEST_CASE("with a shortlist each sentence keeps to its own words, whatever the others under way") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  const SearchOptions options{.beam = 3, .max_extra = 6, .n_best = true};
  Runtime runtime(2, DType::kF32, GENERATE(false, true));
  Decoder free(scorers, runtime, options);
  const auto vocab = word_vocab();
  const auto sources = random_sources(40, 5);
  const auto begins = [](int32_t each) {
    std::vector<int32_t> begin;
    for (int32_t s = 0; s <= 12; ++s) begin.push_back(s * each);
    return begin;
  };

  // Source token s may become 2 + (5 s) % 10 or 2 + (5 s + 1) % 10; </s> is always there.
  std::vector<int32_t> few, all(12);
  for (int32_t s = 0; s < 12; ++s) {
    few.push_back(2 + 5 * s % 10);
    few.push_back(3 + 5 * s % 10);
  }
  std::iota(all.begin(), all.end(), 0);
  const Shortlist narrow(*vocab, *vocab, begins(2), few, {1});
  Decoder bound(scorers, runtime, options, &narrow);
  const auto found = translate(bound, sources), alone = translate(bound, sources, {.sentences = 1}),
             some = translate(bound, sources, {.sentences = 7});
  const auto anything = translate(free, sources);
  bool differs = false;
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto allowed = narrow.candidates(sources[s]);
    REQUIRE(found[s].size() == alone[s].size());
    REQUIRE(found[s].size() == some[s].size());
    REQUIRE(!found[s].empty());
    differs |= found[s][0].ids != anything[s][0].ids;
    for (size_t i = 0; i < found[s].size(); ++i) {
      for (const int32_t id : found[s][i].ids) CHECK(std::ranges::binary_search(allowed, id));
      CHECK(found[s][i].ids == alone[s][i].ids);
      CHECK(found[s][i].ids == some[s][i].ids);
      CHECK(found[s][i].log_probability == Approx(alone[s][i].log_probability).epsilon(1e-5));
    }
  }
  CHECK(differs);

  const Shortlist everything(*vocab, *vocab, begins(0), {}, all);
  Decoder unbound(scorers, runtime, options, &everything);
  const auto same = translate(unbound, sources);
  for (size_t s = 0; s < sources.size(); ++s)
    for (size_t i = 0; i < same[s].size(); ++i) CHECK(same[s][i].ids == anything[s][i].ids);
}

TEST_CASE("no translation has a forbidden token: of one model, of an ensemble, of a shortlist") {
  TestModel a(13), b(12);
  const Scorer scorers[] = {a.scorer(), b.scorer()};
  const auto vocab = word_vocab();
  std::vector<int32_t> begin(13, 0), odd = {1, 3, 5, 7, 9, 11};
  const Shortlist shortlist(*vocab, *vocab, begin, {}, odd);
  Runtime runtime(2);
  const auto sources = random_sources(40, 8);
  const auto check = [&](std::span<const Scorer> models, const Shortlist* list) {
    SearchOptions options{.beam = GENERATE(1, 4), .max_extra = 6, .n_best = true};
    options.sampling = GENERATE(0, 5);
    const auto run = [&] {
      Decoder decoder(models, runtime, options, list);
      return translate(decoder, sources);
    };
    const auto count = [](const std::vector<std::vector<Hypothesis>>& found, int32_t id) {
      int64_t n = 0;
      for (const auto& best : found) {
        REQUIRE(!best.empty());
        for (const Hypothesis& h : best) n += std::ranges::count(h.ids, id);
      }
      return n;
    };
    const auto free = run();
    std::vector<int64_t> counts;
    for (int32_t id = 0; id < 12; ++id) counts.push_back(count(free, id));
    const auto most = std::ranges::max_element(counts);
    REQUIRE(*most > 0);
    options.forbidden = static_cast<int32_t>(most - counts.begin());
    CHECK(count(run(), options.forbidden) == 0);
  };
  SECTION("one model") { check(std::span(scorers, 1), nullptr); }
  SECTION("an ensemble") { check(scorers, nullptr); }
  SECTION("a shortlist") { check(std::span(scorers, 1), &shortlist); }
}

TEST_CASE("what was packed of a shortlist's tokens goes with their decoder") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  Runtime runtime(2);
  const auto vocab = word_vocab();
  const Shortlist list(*vocab, *vocab, std::vector<int32_t>(13, 0), {}, {0, 1, 5, 9});
  const auto packed_after = [&](const Shortlist* shortlist) {
    {
      Decoder decoder(scorers, runtime, {}, shortlist);
      translate(decoder, random_sources(300, 5));
    }
    return runtime.packed_bytes();
  };
  const int64_t all = packed_after(nullptr);
  CHECK(packed_after(&list) == all);
}

TEST_CASE("numbers of allowed tokens that hardly differ have their plans and products in common") {
  TestModel model(13);
  const Scorer scorers[] = {model.scorer()};
  Runtime runtime(1);
  const auto vocab = word_vocab();
  std::vector<int64_t> plans;
  for (const std::vector<int32_t>& always : {std::vector<int32_t>{1, 7}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 6, 8, 9}}) {
    const Shortlist list(*vocab, *vocab, std::vector<int32_t>(13, 0), {}, always);
    Decoder decoder(scorers, runtime, {.beam = 1, .max_extra = 1}, &list);
    translate(decoder, std::vector<std::vector<int32_t>>{{5, 1}});
    plans.push_back(runtime.plans_made());
  }
  CHECK(plans[1] == plans[0]);
  CHECK(plans[2] == plans[0]);
}
