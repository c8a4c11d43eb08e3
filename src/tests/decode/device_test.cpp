// Translating on a device.
#include "tests/device.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "decode/tree_grammar.h"
#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/compute_types.h"
#include "tests/variable.h"

using namespace nmt;
using nmt::testing::test_device;
using nmt::testing::Variable;

namespace {

using Found = std::vector<std::vector<Hypothesis>>;

Shortlist two_words_each() {
  const auto vocab = word_vocab();
  std::vector<int32_t> begins, few;  // source token s may become 2 + (5 s) % 10 or the one behind it
  for (int32_t s = 0; s <= 12; ++s) begins.push_back(2 * s);
  for (int32_t s = 0; s < 12; ++s) few.insert(few.end(), {2 + 5 * s % 10, 3 + 5 * s % 10});
  return Shortlist(*vocab, *vocab, begins, few, {1});
}

// Few at a time, so that they are begun where others have ended.
constexpr int64_t kFew = 8;

Found translate(Decoder& decoder, std::span<const std::vector<int32_t>> sources, int64_t at_a_time = kFew) {
  Found found(sources.size());
  decoder.translate(sources, {.sentences = at_a_time},
                    [&](size_t i, std::vector<Hypothesis> best) { found[i] = std::move(best); });
  return found;
}

Found translate(std::span<const Scorer> scorers, const std::shared_ptr<Backend>& backend, const SearchOptions& options,
                std::span<const std::vector<int32_t>> sources, const Shortlist* shortlist = nullptr,
                int64_t at_a_time = kFew) {
  Runtime runtime(2, DType::kF32, false, backend);
  Decoder decoder(scorers, runtime, options, shortlist);
  return translate(decoder, sources, at_a_time);
}

void check_same(const Found& found, const Found& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t s = 0; s < found.size(); ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (size_t i = 0; i < found[s].size(); ++i) {
      CHECK(found[s][i].ids == expected[s][i].ids);
      CHECK(found[s][i].log_probability == Approx(expected[s][i].log_probability).epsilon(1e-4));
    }
  }
}

}  // namespace

TEST_CASE("a device finds the host's translations") {
  const auto device = test_device();
  if (device == nullptr) return;
  // A beam of 8: there are fewer tokens than it has candidates.
  const auto [beam, at_a_time, sampled] = GENERATE(table<int, int64_t, bool>(
      {{1, kFew, false}, {1, kFew, true}, {4, kFew, false}, {8, kFew, true}, {3, 100, false}, {3, 100, true}}));
  const SearchOptions options{
      .beam = beam, .max_extra = 4, .n_best = true, .forbidden = sampled ? 3 : -1, .sampling = sampled ? 5 : 0};
  TestModel here(5), there(5, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const auto sources = random_sources(at_a_time == kFew ? 12 : 33, beam == 4 ? 30 : 8);  // 33: rows of 34
  const Found found = translate(on_device, device, options, sources, nullptr, at_a_time);
  check_same(found, translate(on_host, host_backend(), options, sources));
  nmt::testing::set_thread_order(3);
  const Found again = translate(on_device, device, options, sources, nullptr, at_a_time);
  nmt::testing::set_thread_order(0);
  check_same(again, found);
  for (size_t s = 0; s < found.size(); ++s)
    for (size_t i = 0; i < found[s].size(); ++i)
      CHECK(again[s][i].log_probability == found[s][i].log_probability);  // to the bit
}

TEST_CASE("in bf16 a device gives its translations the host's probabilities") {
  const auto device = test_device();
  if (device == nullptr || nmt::testing::compute_types().back() != DType::kBF16) return;
  TestModel here(5), there(5, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const auto sources = random_sources(30, 12);
  constexpr int kExtra = 6;
  Runtime host(1, DType::kBF16), runtime(1, DType::kBF16, false, device);
  Decoder scores(on_host, host, {}), decoder(on_device, runtime, {.beam = 3, .max_extra = kExtra});
  const Found found = translate(decoder, sources);
  for (size_t s = 0; s < sources.size(); ++s) {
    IdPair pair{sources[s], found[s].front().ids};
    pair.target.push_back(sources[s].back());
    auto tokens = scores.score(std::span(&pair, 1)).front();
    if (std::ssize(found[s].front().ids) == std::ssize(sources[s]) + kExtra - 1) tokens.pop_back();  // it was cut
    const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
    CHECK(std::fabs(found[s].front().log_probability - sum) < 0.003 * static_cast<double>(tokens.size()));
  }
}

TEST_CASE("a device's search makes room for longer translations, and goes on with shorter ones") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel here(5), there(5, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const SearchOptions options{.beam = 2, .alpha = 2, .max_extra = 9};
  Runtime host(1), runtime(1, DType::kF32, false, device);
  Decoder expected(on_host, host, options), decoder(on_device, runtime, options);
  for (const size_t length : {3, 54, 55, 56, 120, 2}) {
    const std::vector<std::vector<int32_t>> sources = {std::vector<int32_t>(length, 4), {7, 1}, {9, 3, 1}};
    check_same(translate(decoder, sources, 2), translate(expected, sources, 2));
  }
}

TEST_CASE("a device's search can be timed op by op") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel there(5, 12, device);
  const Scorer on_device[] = {there.scorer()};
  Runtime runtime(1, DType::kF32, false, device);
  runtime.profile = Profile(true);
  Decoder decoder(on_device, runtime, {.max_extra = 2});
  translate(decoder, random_sources(3, 5));
  CHECK(runtime.profile.op("cached_attention").flops > 0);
}

TEST_CASE("a device repeats its steps, and goes on after a model that gave no probabilities") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel model(5, 12, device);
  const Scorer scorers[] = {model.scorer()};
  Runtime runtime(1, DType::kF32, false, device);
  Decoder decoder(scorers, runtime, {.beam = 3, .max_extra = 30});
  const std::vector<std::vector<int32_t>> sources(12, {3, 7, 5, 1});
  const auto run = [&] { return translate(decoder, sources, 4); };
  const Found first = run();
  for (const auto& best : first) CHECK(best[0].ids == first[0][0].ids);
  const int64_t begun = runtime.recordings_begun();
  CHECK(begun > 0);
  const std::vector<float> values(model.model.parameters.values().begin(), model.model.parameters.values().end());
  const auto change = [&](auto value_of) {
    auto to = model.model.parameters.values();
    for (size_t i = 0; i < to.size(); ++i) to[i] = value_of(i);
    model.model.parameters.value_buffer().upload();
    runtime.parameters_changed();
  };
  change([](size_t) { return std::numeric_limits<float>::quiet_NaN(); });
  CHECK_THROWS_AS(run(), Error);
  change([&](size_t i) { return values[i]; });
  check_same(run(), first);
  CHECK(runtime.recordings_begun() > begun);
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("a device without memory for a search's sentences translates fewer afterwards") {
  const Variable memory("NMT_EMULATED_MEMORY", "1");
  const auto device = backend_of("0");  // one of its own
  TestModel here(13), there(13, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const SearchOptions options{.beam = 4, .max_extra = 3};
  const Shortlist two_words = two_words_each();
  const Shortlist* shortlist = GENERATE(false, true) ? &two_words : nullptr;
  Runtime host(1), runtime(1, DType::kF32, false, device);
  Decoder expected(on_host, host, options, shortlist), decoder(on_device, runtime, options, shortlist);
  const std::vector<std::vector<int32_t>> sources(300, {3, 4, 1});
  const auto few = std::span(sources).first(2);
  const Found found = translate(expected, few);
  check_same(translate(decoder, few), found);
  CHECK_THROWS_AS(translate(decoder, sources, 300), OutOfMemory);
  check_same(translate(decoder, few), found);
}
#endif

TEST_CASE("several devices share the sentences, and find the host's translations") {
  const Variable emulated("NMT_EMULATED_DEVICES", "2");
  const auto device = test_device(), other = test_device("1");
  if (other == nullptr) return;
  TestModel here(5), there(5, 12, device), there_too(5, 12, other);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const auto sources = random_sources(30, 12);
  const SearchOptions options{.beam = 3, .max_extra = 6};
  Runtime runtime(1, DType::kF32, false, device);
  Decoder decoder(on_device, runtime, options, nullptr, {{{there_too.scorer()}, other}});
  for (int again = 0; again < 2; ++again)
    check_same(translate(decoder, sources), translate(on_host, host_backend(), options, sources));
}

TEST_CASE("a device finds an ensemble's translations") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel one(5), two(6), one_there(5, 12, device), two_there(6, 12, device);
  const Scorer on_host[] = {one.scorer(2), two.scorer()}, on_device[] = {one_there.scorer(2), two_there.scorer()};
  const auto sources = random_sources(10, 8);
  const SearchOptions options{.beam = 3, .max_extra = 4};
  check_same(translate(on_device, device, options, sources), translate(on_host, host_backend(), options, sources));
}

TEST_CASE("a device keeps to a shortlist as the host does") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel here(13), there(13, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const Shortlist shortlist = two_words_each();
  const int64_t at_a_time = GENERATE(8, 100);
  const int32_t forbidden = GENERATE(-1, 5);
  const int shortest = GENERATE(0, 4);
  const auto sources = random_sources(33, 5);
  const SearchOptions options{.beam = 3, .max_extra = 6, .shortest = shortest, .n_best = true, .forbidden = forbidden};
  check_same(translate(on_device, device, options, sources, &shortlist, at_a_time),
             translate(on_host, host_backend(), options, sources, &shortlist));
}

TEST_CASE("a device finds the host's trees") {
  const auto device = test_device();
  if (device == nullptr) return;
  const auto vocab = tree_vocab();
  const TreeGrammar grammar(*vocab, false, "trees");
  TestModel here(5, vocab->size()), there(5, vocab->size(), device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const std::vector<std::vector<int32_t>> sources = {{2, 3, 4, 1}, {5, 1}, {6, 2, 3, 3, 4, 1}, {1}};
  const SearchOptions options{.beam = 4, .max_extra = 9, .n_best = true, .trees = &grammar};
  check_same(translate(on_device, device, options, sources), translate(on_host, host_backend(), options, sources));
}

TEST_CASE("a device scores given translations as the host does") {
  const auto device = test_device();
  if (device == nullptr) return;
  TestModel here(5), there(5, 12, device);
  const Scorer on_host[] = {here.scorer()}, on_device[] = {there.scorer()};
  const auto sources = random_sources(10, 8);
  std::vector<IdPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, sources[pairs.size() / 2]});
  Runtime runtime(1), device_runtime(1, DType::kF32, false, device);
  const auto expected = Decoder(on_host, runtime, {}).score(pairs);
  const auto scores = Decoder(on_device, device_runtime, {}).score(pairs);
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t t = 0; t < scores[i].size(); ++t)
      CHECK(scores[i][t] == Approx(expected[i][t]).epsilon(1e-4).margin(1e-5));
}
