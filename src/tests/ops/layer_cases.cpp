// Layers other than attention that let positions know each other: what convolutions read, and recurrences.
#include "graph/runtime.h"
#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "ops/recurrence.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

Values begins_of(const std::vector<int>& lengths) {
  Values begin{0};
  for (const int length : lengths) begin.push_back(begin.back() + length);
  return begin;
}

OpCase neighbours_case(const std::vector<int>& lengths, int64_t width, int first, int count) {
  const Values begin = begins_of(lengths);
  return {.name = "neighbours " + std::to_string(first) + " + " + std::to_string(count),
          .arguments = {input({static_cast<int64_t>(begin.back()), width}), integers(begin)},
          .build = [=](std::span<const Expr> x) { return neighbours(x[0], x[1], first, count); },
          .reference =
              [=](const std::vector<Values>& x) {
                Values y;
                for (size_t s = 0; s < lengths.size(); ++s)
                  for (int i = 0; i < lengths[s]; ++i)
                    for (int part = 0; part < count; ++part)
                      for (int64_t c = 0; c < width; ++c) {
                        const int other = i + first + part;
                        const bool inside = other >= 0 && other < lengths[s];
                        y.push_back(inside ? x[0][static_cast<size_t>((begin[s] + other)) * static_cast<size_t>(width) +
                                                  static_cast<size_t>(c)]
                                           : 0);
                      }
                return y;
              },
          .slack = 2};
}

// tanh(x + U h) of rows of `width` at x and h (null: zeros).
void state_after(const double* x, const Values& u, const double* h, size_t width, double* to) {
  for (size_t c = 0; c < width; ++c) {
    double sum = x[c];
    for (size_t k = 0; h != nullptr && k < width; ++k) sum += u[c * width + k] * h[k];
    to[c] = std::tanh(sum);
  }
}

OpCase recurrence_case(const std::vector<int>& lengths, int64_t width, bool reversed) {
  const Values begin = begins_of(lengths);
  return {.name = std::string("recurrence of ") + std::to_string(width) + (reversed ? " reversed" : ""),
          .arguments = {input({static_cast<int64_t>(begin.back()), width}),
                        parameter({width, width}, 1 / std::sqrt(static_cast<double>(width))), integers(begin)},
          .build = [=](std::span<const Expr> x) { return recurrence(x[0], x[1], x[2], reversed); },
          .reference =
              [=](const std::vector<Values>& x) {
                Values h(x[0].size());
                const auto w = static_cast<size_t>(width);
                for (size_t s = 0; s < lengths.size(); ++s) {
                  const double* previous = nullptr;
                  for (int t = 0; t < lengths[s]; ++t) {
                    const size_t row =
                        static_cast<size_t>(begin[s]) + static_cast<size_t>(reversed ? lengths[s] - 1 - t : t);
                    state_after(&x[0][row * w], x[1], previous, w, &h[row * w]);
                    previous = &h[row * w];
                  }
                }
                return h;
              },
          .slack = 6};
}

// Steps of decoding: rows that write a row of the cache and read earlier ones.
struct Steps {
  std::vector<std::vector<int>> entries;  // the last is the row's own
  int64_t capacity;

  size_t rows() const { return entries.size(); }
  std::vector<Argument> arguments() const {
    size_t stride = 1;
    for (const auto& list : entries) stride = std::max(stride, list.size() + 1);
    Values slot, entry, length;
    for (const auto& list : entries) {
      slot.push_back(list.back());
      Values padded(list.begin(), list.end());
      padded.resize(stride, -1000);  // never read
      entry.insert(entry.end(), padded.begin(), padded.end());
      length.push_back(static_cast<double>(list.size()));
    }
    const Shape shape{static_cast<int64_t>(rows()), static_cast<int64_t>(stride)};
    return {integers(slot), {.shape = shape, .kind = Argument::Kind::kI32, .values = entry}, integers(length)};
  }
};

OpCase cached_neighbours_case(const Steps& steps, int64_t width, int count) {
  OpCase c{.name = "cached_neighbours " + std::to_string(count), .differentiable = false};
  c.arguments = {input({static_cast<int64_t>(steps.rows()), width}),
                 {.shape = {steps.capacity, width}, .kind = Argument::Kind::kState}};
  for (const Argument& a : steps.arguments()) c.arguments.push_back(a);
  c.build = [=](std::span<const Expr> x) { return cached_neighbours(x[0], x[1], x[2], x[3], x[4], count); };
  c.reference = [=](const std::vector<Values>& x) {
    Values cache = x[1], y;
    for (size_t r = 0; r < steps.rows(); ++r)
      std::copy_n(x[0].begin() + static_cast<int64_t>(r) * width, width,
                  cache.begin() + steps.entries[r].back() * width);
    for (const auto& entries : steps.entries)
      for (int part = 0; part < count; ++part)
        for (int64_t i = 0; i < width; ++i) {
          const int at = static_cast<int>(entries.size()) - count + part;
          y.push_back(at < 0 ? 0 : cache[static_cast<size_t>(entries[static_cast<size_t>(at)] * width + i)]);
        }
    return y;
  };
  return c;
}

OpCase recurrent_step_case(const Steps& steps, int64_t width) {
  OpCase c{.name = "recurrent_step", .differentiable = false, .slack = 4};
  c.arguments = {input({static_cast<int64_t>(steps.rows()), width}),
                 parameter({width, width}, 0.5),
                 {.shape = {steps.capacity, width}, .kind = Argument::Kind::kState}};
  for (const Argument& a : steps.arguments()) c.arguments.push_back(a);
  c.build = [=](std::span<const Expr> x) {
    const Expr h = recurrent_step(x[0], x[1], x[2], x[3], x[4], x[5]);
    // What was written to the cache is there for the next step.
    return cached_neighbours(h, x[2], x[3], x[4], x[5], 2);
  };
  c.reference = [=](const std::vector<Values>& x) {
    const auto w = static_cast<size_t>(width);
    Values y(steps.rows() * 2 * w);
    for (size_t r = 0; r < steps.rows(); ++r) {
      const auto& entries = steps.entries[r];
      const double* previous =
          entries.size() > 1 ? &x[2][static_cast<size_t>(entries[entries.size() - 2]) * w] : nullptr;
      if (previous != nullptr) std::copy_n(previous, w, &y[2 * r * w]);
      state_after(&x[0][r * w], x[1], previous, w, &y[(2 * r + 1) * w]);
    }
    return y;
  };
  return c;
}

}  // namespace

std::vector<OpCase> layer_cases() {
  std::vector<OpCase> cases;
  for (const auto& [first, count] :
       std::vector<std::pair<int, int>>{{-1, 3}, {-4, 5}, {0, 1}, {1, 1}, {-1, 1}, {-2, 4}}) {
    cases.push_back(neighbours_case({3, 1, 0, 9, 2}, 7, first, count));
    cases.push_back(neighbours_case({33}, 1, first, count));
  }
  cases.push_back(neighbours_case({}, 5, -1, 3));
  cases.push_back(neighbours_case({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 3, -1, 3));  // more than a task has
  for (const bool reversed : {false, true}) {
    cases.push_back(recurrence_case({3, 1, 0, 9, 2}, 7, reversed));
    cases.push_back(recurrence_case({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 4, reversed));
    cases.push_back(recurrence_case({6, 4}, 33, reversed));
    cases.push_back(recurrence_case({5}, 1, reversed));
    cases.push_back(recurrence_case({}, 5, reversed));
  }
  const Steps steps{{{4, 2, 7}, {4, 2, 0}, {9}, {1, 3, 5, 6, 8}, {4, 10}}, 11};
  for (const int count : {1, 2, 4}) cases.push_back(cached_neighbours_case(steps, 5, count));
  cases.push_back(cached_neighbours_case({{}, 4}, 5, 3));
  cases.push_back(recurrent_step_case(steps, 5));
  cases.push_back(recurrent_step_case(steps, 34));
  return cases;
}

TEST_CASE("convolutions and recurrences", "[ops]") {
  for (const OpCase& c : layer_cases()) check_case(c);
}

// "Attention Is All You Need", Table 1: attention without its projections, as the paper counts it.
TEST_CASE("layers cost what Table 1 says", "[ops]") {
  constexpr int kKernel = 3, kWindow = 2;
  using Build = std::function<Expr(Expr x, Expr begin, Expr weight_begin, Expr matrix, Expr kernel)>;
  const auto flops_of = [](const Build& build, int64_t n, int64_t d) {
    Runtime runtime(1);
    runtime.profile.times_ops = true;
    const std::vector<float> x(static_cast<size_t>(n * d), 0.1f), weights(static_cast<size_t>(kKernel * d * d));
    const std::vector<int32_t> begin{0, static_cast<int32_t>(n)};
    const std::vector<int64_t> weight_begin{0, n * n};
    Graph graph(runtime, fusion_rules());
    graph.run(
        {build(graph.input({{n, d}, DType::kF32}, x.data()), graph.input({{2}, DType::kI32}, begin.data()),
               graph.input({{2}, DType::kI64}, weight_begin.data()), graph.parameter({d, d}, weights.data(), nullptr),
               graph.parameter({d, kKernel * d}, weights.data(), nullptr))});
    double flops = 0;
    for (const auto& [name, op] : runtime.profile.ops()) flops += op.flops;
    return flops;
  };
  const auto attend = [](KeyMask mask, int heads = 2) -> Build {
    return [mask, heads](Expr x, Expr begin, Expr weight_begin, Expr, Expr) {
      return attention(x, x, x, heads, {begin, begin, weight_begin}, mask, 0);
    };
  };
  struct Layer {
    const char* name;
    Build build;
    double of_n, of_d;  // exponents
  };
  const Layer layers[] = {
      {"self-attention", attend({}), 2, 1},
      {"recurrent",
       [](Expr x, Expr begin, Expr, Expr matrix, Expr) { return recurrence(linear(x, matrix), matrix, begin, false); },
       1, 2},
      {"convolutional",
       [](Expr x, Expr begin, Expr, Expr, Expr kernel) { return linear(neighbours(x, begin, -1, kKernel), kernel); }, 1,
       2},
      {"restricted self-attention", attend({false, kWindow}), 1, 1}};
  constexpr int64_t n = 256, d = 8;
  for (const Layer& layer : layers) {
    INFO(layer.name);
    const double once = flops_of(layer.build, n, d);
    CHECK(std::log2(flops_of(layer.build, 2 * n, d) / once) == Approx(layer.of_n).margin(0.01));
    CHECK(std::log2(flops_of(layer.build, n, 2 * d) / once) == Approx(layer.of_d).margin(0.01));
  }
  CHECK(flops_of(layers[2].build, n, d) == 2.0 * kKernel * n * d * d);
  CHECK(flops_of(layers[3].build, n, d) == Approx(4.0 * (2 * kWindow + 1) * n * d).epsilon(0.01));
  CHECK(flops_of(attend({}, 8), n, 512) == Approx(flops_of(attend({}, 1), n, 512)).epsilon(0.02));  // section 3.2.2
}

}  // namespace nmt::testing
