// From ids to vectors and back: embedding, cross-entropy, the most probable ids.
#include <array>
#include <bit>
#include <deque>
#include <numeric>

#include "base/math.h"
#include "ops/beams.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/project_top_k.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

OpCase embed_case(int64_t vocabulary, int64_t width, const Values& ids, const Values& positions, float rate,
                  Argument::Kind encodings = Argument::Kind::kF32) {
  constexpr float kFactor = 1.75f;
  constexpr int64_t kLongest = 9;
  OpCase c{.name = "embed " + std::to_string(ids.size()) + " ids" + (rate > 0 ? " dropout" : "")};
  c.arguments = {parameter({vocabulary, width}),
                 integers(ids),
                 {.shape = {kLongest, width}, .kind = encodings},
                 integers(positions)};
  c.build = [=](std::span<const Expr> x) {
    x[0].graph().next_dropout_site();  // the second site
    return embed(x[0], x[1], x[2], x[3], kFactor, rate);
  };
  c.reference = [=](const std::vector<Values>& x) {
    Values y = case_dropout(rate, 1, static_cast<int64_t>(ids.size()) * width);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = i / static_cast<size_t>(width), column = i % static_cast<size_t>(width);
      const auto of = [&](const Values& table, double index) {
        return index < 0 ? 0 : table[static_cast<size_t>(index) * static_cast<size_t>(width) + column];
      };
      y[i] *= kFactor * of(x[0], ids[row]) + of(x[2], positions[row]);
    }
    return y;
  };
  return c;
}

// Loss and -log p(label) of each row of logits; rows with a negative label are nothing.
struct Losses {
  double loss = 0;
  Values tokens;
};
Losses losses_of(const Values& logits, int64_t width, const Values& labels, double weight, double smoothing) {
  Losses result;
  for (size_t r = 0; r < labels.size(); ++r) {
    result.tokens.push_back(0);
    if (labels[r] < 0) continue;
    const auto row = std::span(logits).subspan(r * static_cast<size_t>(width), static_cast<size_t>(width));
    const double high = *std::ranges::max_element(row);
    double sum = 0;
    for (const double v : row) sum += std::exp(v - high);
    const double log_sum = high + std::log(sum);
    result.tokens.back() = log_sum - row[static_cast<size_t>(labels[r])];
    double total = 0;
    for (const double v : row) total += log_sum - v;
    result.loss += weight * ((1 - smoothing) * result.tokens.back() + smoothing / static_cast<double>(width) * total);
  }
  return result;
}

Values product(const Values& x, const Values& w, int64_t depth) {
  Values y;
  for (size_t r = 0; r < x.size(); r += static_cast<size_t>(depth))
    for (size_t c = 0; c < w.size(); c += static_cast<size_t>(depth))
      y.push_back(std::inner_product(&x[r], &x[r] + depth, &w[c], 0.0));
  return y;
}

Values random_labels(int64_t rows, int64_t width) {
  Random random(21);
  Values labels;
  for (int64_t r = 0; r < rows; ++r) {
    labels.push_back(static_cast<double>(random.below(static_cast<uint64_t>(width))));
    if (rows > 5 && r % 5 == 3) labels.back() = -1;
  }
  return labels;
}

constexpr double kWeight = 0.375;
const Argument kWeightArgument{.shape = {1}, .kind = Argument::Kind::kF32, .values = {kWeight}};

OpCase loss_case(int64_t rows, int64_t width, float smoothing, bool tokens) {
  const Values labels = random_labels(rows, width);
  return {.name = "cross_entropy " + Shape{rows, width}.str() + (tokens ? " of tokens" : ""),
          .arguments = {input({rows, width}, 2), integers(labels), kWeightArgument},
          .build =
              [=](std::span<const Expr> x) {
                const Expr loss = cross_entropy(x[0], x[1], x[2], smoothing);
                return tokens ? loss.output(1) : loss;
              },
          .reference =
              [=](const std::vector<Values>& x) {
                const Losses l = losses_of(x[0], width, labels, kWeight, smoothing);
                return tokens ? l.tokens : Values{l.loss};
              },
          .is_loss = !tokens,
          .differentiable = !tokens,
          .slack = 2};
}

OpCase projected_loss_case(int64_t rows, int64_t depth, int64_t width, float smoothing, bool tokens) {
  const Values labels = random_labels(rows, width);
  return {.name = "cross_entropy(linear) " + Shape{rows, depth, width}.str() + (tokens ? " of tokens" : ""),
          .arguments = {input({rows, depth}), parameter({width, depth}), integers(labels), kWeightArgument},
          .build =
              [=](std::span<const Expr> x) {
                const Expr loss = cross_entropy(linear(x[0], x[1]), x[2], x[3], smoothing);
                return tokens ? loss.output(1) : loss;
              },
          .reference =
              [=](const std::vector<Values>& x) {
                const Losses l = losses_of(product(x[0], x[1], depth), width, labels, kWeight, smoothing);
                return tokens ? l.tokens : Values{l.loss};
              },
          .is_loss = !tokens,
          .differentiable = !tokens,
          .slack = 3,
          .probes = rows * width < 100000 ? 150u : 20u};  // each computes all logits twice
}

OpCase top_k_case(int64_t rows, int64_t depth, int64_t width, int k, bool ids, bool masked) {
  const auto allowed = [=](int64_t r, int64_t id) { return !masked || (id + r) % 3 != 0; };
  const int64_t bytes = round_up(width, 64) / 8;
  const auto mask = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(rows * bytes));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t id = 0; id < width; ++id)
      if (allowed(r, id)) (*mask)[static_cast<size_t>(r * bytes + id / 8)] |= static_cast<uint8_t>(1u << id % 8);
  return {
      .name =
          "project_top_k " + Shape{rows, depth, width}.str() + " best " + std::to_string(k) + (masked ? " masked" : ""),
      .arguments = {input({rows, depth}), parameter({width, depth})},
      .build =
          [=](std::span<const Expr> x) {
            const Expr masks = masked ? x[0].graph().input({{rows, bytes}, DType::kU8}, mask->data()) : Expr();
            const Expr best = project_top_k(x[0], x[1], k, masks);
            return ids ? best.output(1) : best;
          },
      .reference =
          [=](const std::vector<Values>& x) {
            Values logits = product(x[0], x[1], depth);
            Values best;
            for (int64_t r = 0; r < rows; ++r) {
              const auto row = std::span(logits).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
              for (int64_t id = 0; id < width; ++id)
                if (!allowed(r, id)) row[static_cast<size_t>(id)] = -kInf;
              const double high = *std::ranges::max_element(row);
              double sum = 0;
              for (const double v : row) sum += std::exp(v - high);
              Values order(static_cast<size_t>(width));
              std::iota(order.begin(), order.end(), 0);
              std::ranges::stable_sort(order, std::greater(), [&](double i) { return row[static_cast<size_t>(i)]; });
              for (int i = 0; i < k; ++i) {
                const double id = order[static_cast<size_t>(i)];
                best.push_back(ids ? id : row[static_cast<size_t>(id)] - high - std::log(sum));
              }
            }
            return best;
          },
      .differentiable = false,
      .slack = 3};
}

// Two sentences whose first step has left two hypotheses each, and whose second one is the last.
struct BeamsFixture {
  static constexpr BeamRule kRule{.beam = 2, .wanted = 1, .eos = 1};
  static constexpr int64_t kSlots = 2 * 2 * kPageSteps;  // the first sentence's are the second page
  static constexpr int64_t kStateWords = BeamBatch::state_words(kRule);
  std::vector<int32_t> beams = std::vector<int32_t>(2 * kStateWords), history = std::vector<int32_t>(2 * kSlots);

  BeamsFixture() {
    for (int32_t s = 0; s < 2; ++s) {
      auto* progress = BeamBatch::progress(kRule, beams.data(), s);
      *progress = {.last_penalty = 4, .limit = 2, .steps = 1, .live = 2};
      auto* live = reinterpret_cast<LiveHypothesis*>(progress + 1);
      live[0] = {-1.0 - s, 0};
      live[1] = {-2.0 - s, 1};
      for (int32_t place = 0; place < 2; ++place)
        history[static_cast<size_t>(s == 0 ? kSlots + 2 * place : 2 * place)] = 3 + 2 * s + place;
    }
  }
  // The op writes its states: new ones for each run.
  static Expr leaf(Graph& g, const Shape& shape, const std::vector<int32_t>& values) {
    static std::deque<std::vector<int32_t>> copies;
    return g.input({shape, DType::kI32}, copies.emplace_back(values).data());
  }
  std::array<Expr, 3> leaves(Graph& g) const {
    return {leaf(g, {2, kStateWords}, beams), leaf(g, {kSlots, 2}, history), leaf(g, {2, 1}, {1, 0})};
  }
};

OpCase beam_rows_case(int output, const Values& expected) {
  return {.name = "beam_rows " + std::to_string(output),
          .arguments = {integers({0})},  // of the graph alone
          .build =
              [=](std::span<const Expr> x) {
                const auto [beams, history, pages] = BeamsFixture().leaves(x[0].graph());
                return beam_rows(BeamsFixture::kRule, beams, history, pages).output(output);
              },
          .reference = [=](const std::vector<Values>&) { return expected; },
          .differentiable = false};
}

// names: what ids are numbers of.
OpCase advance_beams_case(const std::vector<int32_t>& names) {
  static const std::vector<double> penalties = {1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
  OpCase c{.name = names.empty() ? "advance_beams" : "advance_beams of names"};
  // Of the first sentence the second hypothesis is the best in the end; the other's are equal.
  c.arguments = {
      {.shape = {4, 3}, .kind = Argument::Kind::kF32, .values = {-3, -4, -5, -1, -2, -kInf, -2, -3, -4, -1, -2, -3}},
      {.shape = {4, 3}, .kind = Argument::Kind::kI32, .values = {5, 6, 7, 7, 2, 0, 3, 4, 5, 2, 3, 4}}};
  c.build = [=](std::span<const Expr> x) {
    Graph& g = x[0].graph();
    const auto [beams, history, pages] = BeamsFixture().leaves(g);
    const Expr by_tokens = g.input({{kPageSteps + 1}, DType::kF64}, penalties.data());
    const Expr of = names.empty() ? Expr() : BeamsFixture::leaf(g, {8}, names);
    return advance_beams(BeamsFixture::kRule, beams, history, pages, x[0], x[1], by_tokens, of);
  };
  c.reference = [=](const std::vector<Values>&) {
    Values all;
    const auto report = [&](double log_probability, int32_t first, int32_t second) {
      Values words = {static_cast<double>(BeamStatus::kEnded), 1};
      for (const double x : {log_probability / penalties[2], log_probability})
        for (const int32_t word : std::bit_cast<std::array<int32_t, 2>>(x)) words.push_back(word);
      if (!names.empty()) second = names[static_cast<size_t>(second)];
      for (const int32_t word : {2, 0, first, second}) words.push_back(word);
      words.resize(8 + kPageSteps);
      all.insert(all.end(), words.begin(), words.end());
    };
    report(-3, 4, 7);
    report(-4, 5, 3);
    return all;
  };
  c.differentiable = false;
  return c;
}

}  // namespace

std::vector<OpCase> text_cases() {
  std::vector<OpCase> cases;
  Values many, positions;
  for (int i = 0; i < 300; ++i) {
    many.push_back(i % 7 == 0 ? -1 : i * i % 11);
    positions.push_back(i % 9);
  }
  for (const float rate : {0.f, 0.3f}) {
    cases.push_back(embed_case(13, 7, {0, 12, 5, 5, -1, 5, 0}, {0, 1, 2, 3, 0, 1, 8}, rate));
    cases.push_back(embed_case(1, 1, {0}, {0}, rate));
    cases.push_back(embed_case(13, 33, {-1}, {0}, rate));
    cases.push_back(embed_case(13, 65, {}, {}, rate));
    cases.push_back(embed_case(11, 33, many, positions, rate));
    cases.push_back(
        embed_case(13, 7, {0, 12, 5, 5, -1, 5, 0}, {0, 1, 2, 3, 0, 1, 8}, rate, Argument::Kind::kParameter));
    cases.push_back(embed_case(11, 32, many, positions, rate, Argument::Kind::kParameter));
  }
  for (const float smoothing : {0.f, 0.1f})
    for (const bool tokens : {false, true}) {
      for (const auto& [rows, width] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 7}, {7, 33}, {33, 7}, {65, 9}, {0, 7}})
        cases.push_back(loss_case(rows, width, smoothing, tokens));
      // Rows beyond a block of logits and beyond a block of their gradients; columns beyond a panel and beyond a tile.
      for (const auto& [rows, depth, width] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
               {1, 1, 1}, {7, 33, 9}, {33, 5, 65}, {0, 5, 7}, {260, 3, 5}, {1100, 2, 5}, {5, 3, 300}, {300, 4, 1100}})
        cases.push_back(projected_loss_case(rows, depth, width, smoothing, tokens));
    }
  for (const auto& [rows, depth, width, k] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, int>>{{1, 1, 1, 1},
                                                               {7, 5, 33, 4},
                                                               {33, 7, 65, 65},
                                                               {0, 5, 7, 2},
                                                               {500, 3, 7, 3},
                                                               {5, 3, 300, 8},
                                                               {3, 2, 9001, 5},
                                                               {97, 1025, 130, 3}}) {
    for (const bool ids : {false, true}) cases.push_back(top_k_case(rows, depth, width, k, ids, false));
    if (width > 3 * k)
      for (const bool ids : {false, true}) cases.push_back(top_k_case(rows, depth, width, k, ids, true));
  }
  constexpr double kPage = 2 * kPageSteps;
  cases.push_back(beam_rows_case(0, {3, 4, 5, 6}));
  cases.push_back(beam_rows_case(1, {1, 1, 1, 1}));
  cases.push_back(beam_rows_case(2, {kPage + 2, kPage + 3, 2, 3}));
  cases.push_back(beam_rows_case(3, {2, 2, 2, 2}));
  cases.push_back(advance_beams_case({}));
  cases.push_back(advance_beams_case({10, 11, 12, 13, 14, 15, 16, 17}));
  return cases;
}

TEST_CASE("embedding, losses, the most probable ids", "[ops]") {
  for (const OpCase& c : text_cases()) check_case(c);
}

}  // namespace nmt::testing
