// Whole searches by the op, on the host and on a device, against Beam.
#include "ops/advance_beams.h"

#include "decode/beam.h"
#include "graph/runtime.h"
#include "random_language_model.h"
#include "tests/catch.h"
#include "tests/device.h"

using namespace nmt;
using nmt::testing::add_best_tokens;
using nmt::testing::next_tokens;

namespace {

constexpr int32_t kEos = 1;
constexpr int64_t kStride = 16;

// Words where a backend computes, and what was last seen of them.
struct Words {
  Words(const std::shared_ptr<Backend>& where, std::vector<int32_t> first)
      : backend(where), values(std::move(first)), memory(where, values.size() * sizeof(int32_t)) {
    backend->upload(memory.data(), values.data(), values.size() * sizeof(int32_t));
  }
  Expr state(Graph& g, const Shape& shape) const { return g.state({shape, DType::kI32}, memory.data()); }
  void look() { backend->download(values.data(), memory.data(), values.size() * sizeof(int32_t)); }

  std::shared_ptr<Backend> backend;
  std::vector<int32_t> values;
  Buffer memory;
};

void check_searches(const std::shared_ptr<Backend>& backend, const SearchOptions& options, int vocabulary) {
  const BeamRule rule = options.rule(kEos);
  const std::vector<int64_t> limits = {3, 12, 1, 7, 12};
  const auto sentences = std::ssize(limits), rows = sentences * rule.beam;
  const int k = std::min(2 * rule.beam, vocabulary);
  Runtime runtime(2, DType::kF32, false, backend);

  std::vector<int32_t> slot, entry(static_cast<size_t>(rows * kStride)),
      beams(static_cast<size_t>(sentences * BeamBatch::state_words(rule)));
  int32_t slots = 0;
  std::vector<Beam> expected;
  for (size_t s = 0; s < limits.size(); ++s) {
    expected.emplace_back(options, limits[s], kEos);
    *BeamBatch::progress(rule, beams.data(), static_cast<int64_t>(s)) = {.limit = static_cast<int32_t>(limits[s]),
                                                                         .first_slot = slots};
    for (int32_t h = 0; h < rule.beam; ++h) {
      entry[slot.size() * kStride] = slots + h;
      slot.push_back(slots + h);
    }
    slots += static_cast<int32_t>(limits[s]) * rule.beam;
  }
  const auto all = static_cast<size_t>(rows);
  Words ids(backend, std::vector<int32_t>(all, -1)), positions(backend, std::vector<int32_t>(all)),
      slot_of(backend, slot), length(backend, std::vector<int32_t>(all, 1)), entries(backend, entry),
      states(backend, beams), history(backend, std::vector<int32_t>(static_cast<size_t>(2 * slots)));
  const auto penalties = options.penalties(kStride);
  std::vector<int32_t> cache(static_cast<size_t>(slots));  // the token that a model would have read in each slot

  for (int step = 0; step < 14; ++step) {
    std::vector<float> values;
    std::vector<int32_t> found;
    std::vector<int32_t> live;
    for (size_t s = 0; s < limits.size(); ++s) {
      live.push_back(expected[s].live());
      for (int32_t h = 0; h < rule.beam; ++h) {
        const size_t row = s * static_cast<size_t>(rule.beam) + static_cast<size_t>(h);
        cache[static_cast<size_t>(slot_of.values[row])] = ids.values[row];
        if (h >= live.back()) {  // nobody reads these
          values.insert(values.end(), static_cast<size_t>(k), NAN);
          found.insert(found.end(), static_cast<size_t>(k), 1 << 30);
          continue;
        }
        const auto text = expected[s].ids(h);
        CHECK(positions.values[row] == step);
        REQUIRE(length.values[row] == step + 1);
        for (size_t i = 0; i <= text.size(); ++i)
          CHECK(cache[static_cast<size_t>(entries.values[row * kStride + i])] == (i == 0 ? -1 : text[i - 1]));
        add_best_tokens(next_tokens(text, vocabulary, s + 1), k, values, found);
      }
      const size_t first = s * static_cast<size_t>(rule.beam * k), count = static_cast<size_t>(live.back() * k);
      if (count > 0)
        expected[s].advance(std::span(values).subspan(first, count), std::span(found).subspan(first, count), k);
    }
    Graph g(runtime);
    const BeamStates all_states = {.ids = ids.state(g, {rows}),
                                   .positions = positions.state(g, {rows}),
                                   .slot = slot_of.state(g, {rows}),
                                   .length = length.state(g, {rows}),
                                   .entry = entries.state(g, {rows, kStride}),
                                   .beams = states.state(g, {sentences, BeamBatch::state_words(rule)}),
                                   .history = history.state(g, {slots, 2})};
    const Expr report = advance_beams(rule, g.input({{rows, k}, DType::kF32}, values.data()),
                                      g.input({{rows, k}, DType::kI32}, found.data()), all_states,
                                      g.input({{std::ssize(penalties)}, DType::kF64}, penalties.data()));
    g.run({report});
    for (Words* words : {&ids, &positions, &slot_of, &length, &entries}) words->look();
    for (size_t s = 0; s < limits.size(); ++s) {
      const auto* words = g.data<int32_t>(report) + s * static_cast<size_t>(BeamBatch::report_words(rule, kStride));
      const bool ended = live[s] > 0 && expected[s].live() == 0;
      REQUIRE(static_cast<BeamStatus>(words[0]) == (ended ? BeamStatus::kEnded : BeamStatus::kGoesOn));
      const auto best = ended ? expected[s].best() : std::vector<Hypothesis>();
      REQUIRE(words[1] == std::ssize(best));
      for (size_t i = 0; i < best.size(); ++i) {
        const auto& f = *BeamBatch::finished(words, kStride, static_cast<int64_t>(i));
        const auto* tokens = reinterpret_cast<const int32_t*>(&f + 1);
        CHECK(std::vector(tokens, tokens + f.tokens) == best[i].ids);
        CHECK(f.log_probability == best[i].log_probability);
        CHECK(f.score == best[i].score);
      }
    }
  }
}

}  // namespace

TEST_CASE("the op's searches are those of Beam") {
  const SearchOptions options{.beam = GENERATE(1, 3, 20), .alpha = GENERATE(0.0, 0.6), .n_best = GENERATE(false, true)};
  const int vocabulary = GENERATE(2, 30);
  check_searches(host_backend(), options, vocabulary);
  if (const auto device = nmt::testing::test_device(); device != nullptr) check_searches(device, options, vocabulary);
}

TEST_CASE("the op tells what a search cannot go on with") {
  const BeamRule rule{.beam = 1, .wanted = 1, .eos = kEos};
  const auto [value, status] =
      GENERATE(std::pair(NAN, BeamStatus::kNotANumber), std::pair(-INFINITY, BeamStatus::kImpossible));
  std::vector<std::shared_ptr<Backend>> backends = {host_backend()};
  if (const auto device = nmt::testing::test_device(); device != nullptr) backends.push_back(device);
  for (const auto& backend : backends) {
    Runtime runtime(1, DType::kF32, false, backend);
    std::vector<int32_t> beams(static_cast<size_t>(BeamBatch::state_words(rule)));
    *BeamBatch::progress(rule, beams.data(), 0) = {.limit = 2, .first_slot = 0};
    const Words one(backend, {0}), two(backend, {0}), three(backend, {0}), four(backend, {1}), entry(backend, {0, 0}),
        state(backend, beams), history(backend, {0, 0, 0, 0});
    const std::vector<float> values(2, value);
    const std::vector<int32_t> ids = {3, 4};
    const std::vector<double> penalties = {1, 1, 1};
    for (int again = 0; again < 2; ++again) {
      Graph g(runtime);
      const Expr report = advance_beams(
          rule, g.input({{1, 2}, DType::kF32}, values.data()), g.input({{1, 2}, DType::kI32}, ids.data()),
          {one.state(g, {1}), two.state(g, {1}), three.state(g, {1}), four.state(g, {1}), entry.state(g, {1, 2}),
           state.state(g, {1, BeamBatch::state_words(rule)}), history.state(g, {2, 2})},
          g.input({{3}, DType::kF64}, penalties.data()));
      g.run({report});
      // It is told once: there is nothing alive then.
      CHECK(static_cast<BeamStatus>(g.data<int32_t>(report)[0]) == (again == 0 ? status : BeamStatus::kGoesOn));
    }
  }
}
