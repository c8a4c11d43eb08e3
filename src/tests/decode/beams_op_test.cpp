// Whole searches by the ops, on the host and on a device, against Beam.
#include "decode/beam.h"
#include "graph/runtime.h"
#include "ops/beams.h"
#include "random_language_model.h"
#include "tests/catch.h"
#include "tests/device.h"

using namespace nmt;
using nmt::testing::add_best_tokens;
using nmt::testing::next_tokens;

namespace {

constexpr int32_t kEos = 1;

std::vector<std::shared_ptr<Backend>> all_backends() {
  std::vector<std::shared_ptr<Backend>> all = {host_backend()};
  if (auto device = nmt::testing::test_device(); device != nullptr) all.push_back(std::move(device));
  return all;
}

uint64_t key_of(int64_t sentence) { return uint64_t{0x123456789abcdef} * static_cast<uint64_t>(sentence); }

// Searches as the ops see them: of so many steps each.
struct Searches {
  Searches(const std::shared_ptr<Backend>& backend, const SearchOptions& options, const std::vector<int32_t>& limits)
      : rule(options.rule(kEos)), sentences(std::ssize(limits)) {
    std::vector<int32_t> first(static_cast<size_t>(sentences * BeamBatch::state_words(rule)));
    const int64_t longest = *std::ranges::max_element(limits);
    pages_each = round_up(longest, kPageSteps) / kPageSteps;
    for (int64_t s = 0; s < sentences; ++s) {
      const int32_t limit = limits[static_cast<size_t>(s)];
      *BeamBatch::progress(rule, first.data(), s) = {
          .last_penalty = options.penalty(limit), .key = key_of(s), .limit = limit};
    }
    for (int64_t i = 0; i < sentences * pages_each; ++i)  // in an order of their own
      pages.push_back(static_cast<int32_t>((i * 7 + 3) % (sentences * pages_each)));
    for (int64_t tokens = 0; tokens <= stride(); ++tokens) penalties.push_back(options.penalty(tokens));
    beams = Buffer(backend, first.size() * sizeof(int32_t));
    backend->upload(beams.data(), first.data(), first.size() * sizeof(int32_t));
    history = Buffer(backend, static_cast<size_t>(slots()) * sizeof(BeamToken));
  }
  int64_t stride() const { return pages_each * kPageSteps; }
  int64_t slots() const { return sentences * stride() * rule.beam; }
  std::array<Expr, 3> leaves(Graph& g) const {
    return {g.state({{sentences, BeamBatch::state_words(rule)}, DType::kI32}, beams.data()),
            g.state({{slots(), 2}, DType::kI32}, history.data()),
            g.input({{sentences, pages_each}, DType::kI32}, pages.data())};
  }
  Expr advance(Graph& g, const std::vector<float>& values, const std::vector<int32_t>& ids, int k) const {
    const auto [states, tokens, table] = leaves(g);
    const int64_t rows = sentences * rule.beam;
    return advance_beams(rule, states, tokens, table, g.input({{rows, k}, DType::kF32}, values.data()),
                         g.input({{rows, k}, DType::kI32}, ids.data()),
                         g.input({{stride() + 1}, DType::kF64}, penalties.data()));
  }

  BeamRule rule;
  int64_t sentences, pages_each = 0;
  std::vector<int32_t> pages;
  std::vector<double> penalties;
  Buffer beams, history;
};

void check_searches(const std::shared_ptr<Backend>& backend, const SearchOptions& options, int vocabulary) {
  const std::vector<int32_t> limits = {3, 20, 1, 7, 16};
  const Searches searches(backend, options, limits);
  const BeamRule rule = searches.rule;
  const int k = std::min(options.candidates(), vocabulary);
  Runtime runtime(2, DType::kF32, false, backend);
  std::vector<Beam> expected;
  for (const int32_t limit : limits) expected.emplace_back(options, limit, kEos, key_of(std::ssize(expected)));
  std::vector<int32_t> cache(static_cast<size_t>(searches.slots()));  // what a model would have read, by slot

  for (int step = 0; step < 22; ++step) {
    std::vector<float> values;
    std::vector<int32_t> found, live;
    {
      Graph g(runtime);
      const auto [states, tokens, table] = searches.leaves(g);
      const Expr rows = beam_rows(rule, states, tokens, table);
      g.run({rows, rows.output(1), rows.output(2), rows.output(3), rows.output(4)});
      const auto *ids = g.data<int32_t>(rows), *positions = g.data<int32_t>(rows.output(1)),
                 *slot = g.data<int32_t>(rows.output(2)), *length = g.data<int32_t>(rows.output(3)),
                 *entry = g.data<int32_t>(rows.output(4));
      for (size_t s = 0; s < limits.size(); ++s) {
        live.push_back(expected[s].live());
        for (int32_t h = 0; h < rule.beam; ++h) {
          const int64_t row = static_cast<int64_t>(s) * rule.beam + h;
          if (h >= live.back()) {
            CHECK(slot[row] == -1);
            CHECK(length[row] == 0);
            values.insert(values.end(), static_cast<size_t>(k), NAN);  // nobody reads these
            found.insert(found.end(), static_cast<size_t>(k), 1 << 30);
            continue;
          }
          cache.at(static_cast<size_t>(slot[row])) = ids[row];
          const auto text = expected[s].ids(h);
          CHECK(positions[row] == step);
          REQUIRE(length[row] == step + 1);
          for (size_t i = 0; i <= text.size(); ++i) {
            const int32_t at = entry[row * searches.stride() + static_cast<int64_t>(i)];
            CHECK(cache.at(static_cast<size_t>(at)) == (i == 0 ? -1 : text[i - 1]));
          }
          add_best_tokens(next_tokens(text, vocabulary, s + 1), k, values, found);
        }
      }
    }
    for (size_t s = 0; s < limits.size(); ++s) {
      const size_t first = s * static_cast<size_t>(rule.beam * k), count = static_cast<size_t>(live[s] * k);
      if (count > 0)
        expected[s].advance(std::span(values).subspan(first, count), std::span(found).subspan(first, count), k);
    }
    Graph g(runtime);
    const Expr report = searches.advance(g, values, found, k);
    g.run({report});
    for (size_t s = 0; s < limits.size(); ++s) {
      const auto* words = g.data<int32_t>(report) + static_cast<int64_t>(s) * report.shape()[1];
      const bool ended = live[s] > 0 && expected[s].live() == 0;
      REQUIRE(static_cast<BeamStatus>(words[0]) == (ended ? BeamStatus::kEnded : BeamStatus::kGoesOn));
      const auto best = ended ? expected[s].best() : std::vector<Hypothesis>();
      REQUIRE(words[1] == std::ssize(best));
      for (size_t i = 0; i < best.size(); ++i) {
        const auto& f = *BeamStep::finished(words, searches.stride(), static_cast<int64_t>(i));
        const int32_t* tokens = BeamStep::tokens(&f);
        CHECK(std::vector(tokens, tokens + f.tokens) == best[i].ids);
        CHECK(f.log_probability == best[i].log_probability);
        CHECK(f.score == best[i].score);
      }
    }
  }
}

}  // namespace

TEST_CASE("the ops' searches are those of Beam") {
  const int beam = GENERATE(1, 3, 100);
  const double alpha = GENERATE(0.0, 0.6);
  const bool n_best = GENERATE(false, true);
  const int32_t forbidden = GENERATE(-1, 0);
  const int vocabulary = GENERATE(2, 30);
  const int sampling = GENERATE(0, 5);
  const SearchOptions options{.beam = beam,
                              .alpha = alpha,
                              .shortest = n_best ? 2 : 0,
                              .n_best = n_best,
                              .forbidden = forbidden,
                              .sampling = sampling};
  for (const auto& backend : all_backends()) check_searches(backend, options, vocabulary);
}

TEST_CASE("the op tells once what a search cannot go on with") {
  const auto [value, status] =
      GENERATE(std::pair(NAN, BeamStatus::kNotANumber), std::pair(-INFINITY, BeamStatus::kImpossible));
  for (const auto& backend : all_backends()) {
    const Searches searches(backend, {.beam = 1}, {2});
    Runtime runtime(1, DType::kF32, false, backend);
    for (int again = 0; again < 2; ++again) {
      Graph g(runtime);
      const std::vector<float> values(2, value);
      const std::vector<int32_t> ids = {3, 4};
      const Expr report = searches.advance(g, values, ids, 2);
      g.run({report});
      CHECK(static_cast<BeamStatus>(g.data<int32_t>(report)[0]) == (again == 0 ? status : BeamStatus::kGoesOn));
    }
  }
}
