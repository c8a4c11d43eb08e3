// Attention and its parts. Every case is a whole attention in the graph; composed, it runs the parts.
#include "ops/additive_attention.h"
#include "ops/attention.h"
#include "ops/normalize.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

struct Lengths {
  std::vector<int> queries, keys;
};

Values begins(const std::vector<int>& lengths) {
  Values begin{0};
  for (const int length : lengths) begin.push_back(begin.back() + length);
  return begin;
}

Values weight_begins(const Lengths& l) {
  Values begin{0};
  for (size_t s = 0; s < l.queries.size(); ++s) begin.push_back(begin.back() + l.queries[s] * l.keys[s]);
  return begin;
}

// Where q, k and v lie: columns of which of the arguments.
struct Source {
  size_t argument;
  int64_t column;
};

struct Layout {
  std::string name;
  std::vector<int64_t> widths;  // of the arguments
  Source q, k, v;
  int heads, d_k, d_v;
};

// Equation 1 of "Attention Is All You Need" for each sentence and head, with factors of dropout on the weights.
Values attention_of(const std::vector<Values>& x, const Layout& a, const Lengths& l, KeyMask mask, float rate,
                    double factor) {
  const Values q_begin = begins(l.queries), k_begin = begins(l.keys), w_begin = weight_begins(l);
  const auto weights_of_head = static_cast<int64_t>(w_begin.back());
  const Values& factors = case_dropout(rate, 1, a.heads * weights_of_head);
  const auto at = [&](const Source& s, double row, int64_t column) {
    const auto width = a.widths[s.argument];
    return x[s.argument][static_cast<size_t>(static_cast<int64_t>(row) * width + s.column + column)];
  };
  Values y(static_cast<size_t>(q_begin.back()) * static_cast<size_t>(a.heads * a.d_v));
  for (size_t s = 0; s < l.queries.size(); ++s)
    for (int h = 0; h < a.heads; ++h)
      for (int i = 0; i < l.queries[s]; ++i) {
        const int seen = l.keys[s];
        Values scores(static_cast<size_t>(seen));
        for (int j = 0; j < seen; ++j) {
          for (int d = 0; d < a.d_k; ++d)
            scores[static_cast<size_t>(j)] +=
                at(a.q, q_begin[s] + i, h * a.d_k + d) * at(a.k, k_begin[s] + j, h * a.d_k + d) * factor;
          if ((mask.causal && j > i) || (mask.window > 0 && std::abs(i - j) > mask.window))
            scores[static_cast<size_t>(j)] = -kInf;
        }
        double sum = 0;
        const double high = seen == 0 ? 0 : *std::ranges::max_element(scores);
        for (double& v : scores) sum += v = std::exp(v - high);
        for (int j = 0; j < seen; ++j) {
          const auto element =
              static_cast<size_t>(h * weights_of_head + static_cast<int64_t>(w_begin[s]) + i * l.keys[s] + j);
          for (int d = 0; d < a.d_v; ++d)
            y[static_cast<size_t>(q_begin[s] + i) * static_cast<size_t>(a.heads * a.d_v) +
              static_cast<size_t>(h * a.d_v + d)] +=
                scores[static_cast<size_t>(j)] / sum * factors[element] * at(a.v, k_begin[s] + j, h * a.d_v + d);
        }
      }
  return y;
}

// factor 0: the usual one.
OpCase attention_case(const Layout& a, const Lengths& l, KeyMask mask, float rate, float factor = 0) {
  OpCase c{.name = "attention " + a.name + (mask.causal ? " causal" : "") +
                   (mask.window > 0 ? " window " + std::to_string(mask.window) : "") + (rate > 0 ? " dropout" : "") +
                   (factor > 0 ? " factor" : "")};
  const auto rows = static_cast<int64_t>(begins(l.queries).back()), keys = static_cast<int64_t>(begins(l.keys).back());
  for (size_t i = 0; i < a.widths.size(); ++i)
    c.arguments.push_back(input({i == a.q.argument ? rows : keys, a.widths[i]}));
  const size_t first = c.arguments.size();
  c.arguments.push_back(integers(begins(l.queries)));
  c.arguments.push_back(integers(begins(l.keys)));
  c.arguments.push_back(integers(weight_begins(l), Argument::Kind::kI64));
  c.build = [=](std::span<const Expr> x) {
    const Segments segments{x[first], x[first + 1], x[first + 2]};
    x[0].graph().next_dropout_site();  // the second site
    return attention(columns(x[a.q.argument], a.q.column, a.heads * a.d_k),
                     columns(x[a.k.argument], a.k.column, a.heads * a.d_k),
                     columns(x[a.v.argument], a.v.column, a.heads * a.d_v), a.heads, segments, mask, rate, factor);
  };
  c.reference = [=](const std::vector<Values>& x) {
    return attention_of(x, a, l, mask, rate, factor > 0 ? factor : 1 / std::sqrt(a.d_k));
  };
  c.slack = 4;
  return c;
}

// Rows of a beam: each writes its key and value to a slot and attends to a list of cache rows.
OpCase cached_attention_case(int heads, int d_k, int d_v, const std::vector<std::vector<int>>& entries,
                             const std::vector<int>& slots, int64_t capacity, int window = 0, float factor = 0) {
  const int64_t keys = heads * d_k, values = heads * d_v, width = 2 * keys + values;
  const auto rows = static_cast<int64_t>(slots.size());
  size_t stride = 1;
  for (const auto& list : entries) stride = std::max(stride, list.size() + 1);
  Values entry, length;
  for (const auto& list : entries) {
    Values padded(list.begin(), list.end());
    padded.resize(stride, -1000);  // never read
    entry.insert(entry.end(), padded.begin(), padded.end());
    length.push_back(static_cast<double>(list.size()));
  }
  OpCase c{.name = "cached_attention of " + std::to_string(rows) + " rows", .differentiable = false, .slack = 2};
  c.arguments = {input({rows, width}),
                 {.shape = {capacity, keys}, .kind = Argument::Kind::kState},
                 {.shape = {capacity, values}, .kind = Argument::Kind::kState},
                 integers(Values(slots.begin(), slots.end())),
                 {.shape = {rows, static_cast<int64_t>(stride)}, .kind = Argument::Kind::kI32, .values = entry},
                 integers(length)};
  c.build = [=](std::span<const Expr> x) {
    return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5], heads, window, factor);
  };
  c.reference = [=](const std::vector<Values>& x) {
    Values k = x[1], v = x[2];
    for (size_t r = 0; r < slots.size(); ++r) {
      if (slots[r] < 0) continue;
      const auto row = x[0].begin() + static_cast<int64_t>(r) * width;
      std::copy_n(row + keys, keys, k.begin() + slots[r] * keys);
      std::copy_n(row + 2 * keys, values, v.begin() + slots[r] * values);
    }
    Values y(slots.size() * static_cast<size_t>(values));
    for (size_t r = 0; r < slots.size(); ++r)
      for (int h = 0; h < heads; ++h) {
        Values weights;
        double sum = 0;
        const size_t all = entries[r].size(), seen = window > 0 ? std::min(all, static_cast<size_t>(window) + 1) : all;
        for (const int row : std::span(entries[r]).last(seen)) {
          double score = 0;
          for (int d = 0; d < d_k; ++d)
            score += x[0][r * static_cast<size_t>(width) + static_cast<size_t>(h * d_k + d)] *
                     k[static_cast<size_t>(row * keys + h * d_k + d)];
          weights.push_back(std::exp(score * (factor > 0 ? factor : 1 / std::sqrt(d_k))));
          sum += weights.back();
        }
        for (size_t j = 0; j < weights.size(); ++j)
          for (int d = 0; d < d_v; ++d)
            y[r * static_cast<size_t>(values) + static_cast<size_t>(h * d_v + d)] +=
                weights[j] / sum * v[static_cast<size_t>(entries[r][all - seen + j] * values + h * d_v + d)];
      }
    return y;
  };
  return c;
}

// softmax(w . tanh(q + k)) v for each sentence and head, with factors of dropout on the weights.
OpCase additive_attention_case(const Lengths& l, int heads, int d_k, int d_v, KeyMask mask, float rate) {
  OpCase c{.name = "additive_attention of " + std::to_string(heads) + " heads" + (mask.causal ? " causal" : "") +
                   (mask.window > 0 ? " window " + std::to_string(mask.window) : "") + (rate > 0 ? " dropout" : "")};
  const Values q_begin = begins(l.queries), k_begin = begins(l.keys), w_begin = weight_begins(l);
  const auto queries = static_cast<int64_t>(q_begin.back()), keys = static_cast<int64_t>(k_begin.back());
  c.arguments = {input({queries, heads * d_k}),
                 input({keys, heads * d_k}),
                 input({keys, heads * d_v}),
                 parameter({heads, d_k}),
                 integers(q_begin),
                 integers(k_begin),
                 integers(w_begin, Argument::Kind::kI64)};
  c.build = [=](std::span<const Expr> x) {
    x[0].graph().next_dropout_site();  // the second site
    return additive_attention(x[0], x[1], x[2], x[3], {x[4], x[5], x[6]}, mask, rate);
  };
  c.reference = [=](const std::vector<Values>& x) {
    const auto all = static_cast<int64_t>(w_begin.back());
    const Values& factors = case_dropout(rate, 1, heads * all);
    const auto at = [&](size_t argument, double row, int h, int d, int width) {
      return x[argument][(static_cast<size_t>(row) * static_cast<size_t>(heads) + static_cast<size_t>(h)) *
                             static_cast<size_t>(width) +
                         static_cast<size_t>(d)];
    };
    Values y(static_cast<size_t>(queries * heads * d_v));
    for (size_t s = 0; s < l.queries.size(); ++s)
      for (int h = 0; h < heads; ++h)
        for (int i = 0; i < l.queries[s]; ++i) {
          Values weights;
          double sum = 0;
          for (int j = 0; j < l.keys[s]; ++j) {
            double score = 0;
            for (int d = 0; d < d_k; ++d)
              score += x[3][static_cast<size_t>(h * d_k + d)] *
                       std::tanh(at(0, q_begin[s] + i, h, d, d_k) + at(1, k_begin[s] + j, h, d, d_k));
            const bool hidden = (mask.causal && j > i) || (mask.window > 0 && std::abs(i - j) > mask.window);
            weights.push_back(hidden ? 0 : std::exp(score));
            sum += weights.back();
          }
          for (int j = 0; j < l.keys[s]; ++j) {
            const auto element = static_cast<size_t>(h * all + static_cast<int64_t>(w_begin[s]) + i * l.keys[s] + j);
            for (int d = 0; d < d_v; ++d)
              y[(static_cast<size_t>(q_begin[s]) + static_cast<size_t>(i)) * static_cast<size_t>(heads * d_v) +
                static_cast<size_t>(h * d_v + d)] +=
                  weights[static_cast<size_t>(j)] / sum * factors[element] * at(2, k_begin[s] + j, h, d, d_v);
          }
        }
    return y;
  };
  c.slack = 4;
  return c;
}

// Rows of a beam, each with its slot as the last of its entries.
OpCase cached_additive_attention_case(int heads, int d_k, int d_v, const std::vector<std::vector<int>>& entries,
                                      int64_t capacity, int window) {
  OpCase c = cached_attention_case(
      heads, d_k, d_v, entries,
      [&] {
        std::vector<int> slots;
        for (const auto& list : entries) slots.push_back(list.back());
        return slots;
      }(),
      capacity, window);
  const int keys = heads * d_k, values = heads * d_v, width = 2 * keys + values;
  c.name = "cached_additive_attention, window " + std::to_string(window);
  c.arguments.push_back(parameter({heads, d_k}));
  c.build = [=](std::span<const Expr> x) {
    return cached_additive_attention(x[0], x[1], x[2], x[6], x[3], x[4], x[5], window);
  };
  c.reference = [=](const std::vector<Values>& x) {
    Values k = x[1], v = x[2], y(entries.size() * static_cast<size_t>(values));
    for (size_t r = 0; r < entries.size(); ++r) {
      const auto row = x[0].begin() + static_cast<int64_t>(r) * width;
      std::copy_n(row + keys, keys, k.begin() + entries[r].back() * keys);
      std::copy_n(row + 2 * keys, values, v.begin() + entries[r].back() * values);
    }
    for (size_t r = 0; r < entries.size(); ++r)
      for (int h = 0; h < heads; ++h) {
        const size_t all = entries[r].size(), seen = window > 0 ? std::min(all, static_cast<size_t>(window) + 1) : all;
        Values weights;
        double sum = 0;
        for (const int row : std::span(entries[r]).last(seen)) {
          double score = 0;
          for (int d = h * d_k; d < (h + 1) * d_k; ++d)
            score +=
                x[6][static_cast<size_t>(d)] * std::tanh(x[0][r * static_cast<size_t>(width) + static_cast<size_t>(d)] +
                                                         k[static_cast<size_t>(row * keys + d)]);
          weights.push_back(std::exp(score));
          sum += weights.back();
        }
        for (size_t j = 0; j < seen; ++j)
          for (int d = h * d_v; d < (h + 1) * d_v; ++d)
            y[r * static_cast<size_t>(values) + static_cast<size_t>(d)] +=
                weights[j] / sum * v[static_cast<size_t>(entries[r][all - seen + j] * values + d)];
      }
    return y;
  };
  return c;
}

// x [rows, heads * d] as [heads, rows, d], or back.
Values heads_swapped(const Values& x, int64_t rows, int64_t heads, int64_t d, bool split) {
  Values y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < d; ++i) {
        const auto by_row = static_cast<size_t>((r * heads + h) * d + i);
        const auto by_head = static_cast<size_t>((h * rows + r) * d + i);
        split ? y[by_head] = x[by_row] : y[by_row] = x[by_head];
      }
  return y;
}

OpCase columns_case(const Shape& shape, int64_t first, int64_t count) {
  return {.name = "columns " + shape.str() + " " + std::to_string(first) + " + " + std::to_string(count),
          .arguments = {input(shape)},
          .build = [=](std::span<const Expr> x) { return columns(x[0], first, count); },
          .reference =
              [=](const std::vector<Values>& x) {
                Values y;
                for (size_t i = 0; i < x[0].size(); ++i) {
                  const int64_t c = static_cast<int64_t>(i) % shape.dim(-1);
                  if (c >= first && c < first + count) y.push_back(x[0][i]);
                }
                return y;
              }};
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  const Lengths self{{3, 1, 9, 7}, {3, 1, 9, 7}}, cross{{3, 1, 9, 2}, {5, 4, 1, 12}};
  const Layout packed{"of one product", {3 * 7 + 3 * 7 + 3 * 5}, {0, 0}, {0, 21}, {0, 42}, 3, 7, 5};
  const Layout across{"with keys and values of one product", {2 * 8, 2 * 8 + 2 * 4}, {0, 0}, {1, 0}, {1, 16}, 2, 8, 4};
  const Layout apart{"of three tensors", {12, 12, 12}, {0, 0}, {1, 0}, {2, 0}, 2, 6, 6};
  for (const bool causal : {false, true})
    for (const float rate : {0.f, 0.3f}) {
      cases.push_back(attention_case(packed, self, causal, rate));
      cases.push_back(attention_case(apart, self, causal, rate));
    }
  for (const float rate : {0.f, 0.3f}) {
    cases.push_back(attention_case(across, cross, false, rate));
    cases.push_back(attention_case(apart, cross, false, rate));
  }
  for (const int window : {1, 2, 7}) {
    cases.push_back(attention_case(packed, self, {false, window}, 0.3f));
    cases.push_back(attention_case(apart, self, {true, window}, 0));
    cases.push_back(attention_case(packed, {{65}, {65}}, {window == 2, window}, 0));
  }
  cases.push_back(attention_case(packed, self, true, 0, 0.7f));
  cases.push_back(attention_case(across, cross, false, 0.3f, 0.7f));
  // The same columns in more than one role, and columns that nobody reads.
  cases.push_back(
      attention_case({"of one tensor three times", {12}, {0, 0}, {0, 0}, {0, 0}, 2, 6, 6}, self, true, 0.3f));
  cases.push_back(attention_case({"keys are values", {12, 12}, {0, 0}, {1, 0}, {1, 0}, 2, 6, 6}, cross, false, 0));
  cases.push_back(attention_case({"keys overlap values", {12, 18}, {0, 0}, {1, 0}, {1, 6}, 2, 6, 6}, cross, false, 0));
  cases.push_back(attention_case({"queries are keys", {12, 12}, {0, 0}, {0, 0}, {1, 0}, 2, 6, 6}, self, false, 0));
  cases.push_back(attention_case({"queries are values", {12, 12}, {0, 0}, {1, 0}, {0, 0}, 2, 6, 6}, self, false, 0));
  cases.push_back(
      attention_case({"queries are values of one tensor", {24}, {0, 0}, {0, 12}, {0, 0}, 2, 6, 6}, self, false, 0));
  cases.push_back(attention_case({"with columns between", {60}, {0, 3}, {0, 20}, {0, 45}, 2, 6, 5}, self, true, 0));
  // Sizes: one head of one, a long sentence, empty sentences, nothing at all.
  cases.push_back(attention_case({"of single columns", {3}, {0, 0}, {0, 1}, {0, 2}, 1, 1, 1}, self, true, 0.3f));
  cases.push_back(attention_case({"of 65 tokens", {33}, {0, 0}, {0, 11}, {0, 22}, 1, 11, 11}, {{65}, {65}}, true, 0));
  cases.push_back(attention_case(packed, {{0, 3, 0, 2, 0}, {0, 3, 0, 2, 0}}, true, 0.3f));
  cases.push_back(attention_case(across, {{0, 3, 2}, {4, 0, 2}}, false, 0));  // queries without keys: zeros
  cases.push_back(attention_case(packed, {{0}, {0}}, true, 0.3f));
  cases.push_back(attention_case(packed, {{}, {}}, false, 0));

  for (const auto& [rows, heads, d] : std::vector<std::tuple<int64_t, int, int64_t>>{
           {5, 3, 7}, {1, 1, 1}, {33, 2, 1}, {65, 1, 9}, {0, 2, 3}, {2, 3, 0}}) {
    cases.push_back(
        {.name = "split_heads",
         .arguments = {input({rows, heads * d})},
         .build = [=](std::span<const Expr> x) { return split_heads(x[0], heads); },
         .reference = [=](const std::vector<Values>& x) { return heads_swapped(x[0], rows, heads, d, true); }});
    cases.push_back(
        {.name = "merge_heads",
         .arguments = {input({heads, rows, d})},
         .build = [=](std::span<const Expr> x) { return merge_heads(x[0]); },
         .reference = [=](const std::vector<Values>& x) { return heads_swapped(x[0], rows, heads, d, false); }});
  }
  for (const Shape& shape : {Shape{7}, {33, 7}, {3, 5, 7}, {0, 7}})
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 7}, {0, 3}, {2, 4}, {6, 1}, {3, 0}})
      cases.push_back(columns_case(shape, first, count));

  cases.push_back(cached_attention_case(1, 1, 1, {{0}}, {0}, 1));
  cases.push_back(
      cached_attention_case(3, 7, 5, {{4, 2, 7}, {4, 2, 0}, {9}, {1, 3, 5, 6, 8}, {4, 9}}, {7, 0, 9, 8, -1}, 10));
  cases.push_back(cached_attention_case(2, 4, 8, {{}, {3}}, {-1, 3}, 5));  // a row without history: zeros
  cases.push_back(cached_attention_case(2, 4, 8, {}, {}, 5));
  cases.push_back(cached_attention_case(3, 7, 5, {{4, 2, 7}, {4, 2, 0}, {9}, {1, 3, 5, 6, 8}, {4, 9}}, {7, 0, 9, 8, -1},
                                        10, 2, 0.9f));

  for (const float rate : {0.f, 0.3f}) {
    cases.push_back(additive_attention_case(self, 3, 7, 5, false, rate));
    cases.push_back(additive_attention_case(self, 1, 17, 3, {true, 2}, rate));
    cases.push_back(additive_attention_case(cross, 2, 4, 8, false, rate));
  }
  cases.push_back(additive_attention_case({{40}, {40}}, 1, 5, 5, {false, 6}, 0.3f));
  cases.push_back(additive_attention_case({{0, 3, 0, 2}, {0, 3, 0, 2}}, 2, 3, 4, true, 0));
  cases.push_back(additive_attention_case({{0, 3, 2}, {4, 0, 2}}, 2, 3, 4, false, 0));  // queries without keys: zeros
  cases.push_back(additive_attention_case({{}, {}}, 2, 3, 4, true, 0));
  for (const int window : {0, 2})
    cases.push_back(cached_additive_attention_case(3, 7, 5, {{4, 2, 7}, {4, 2, 0}, {9}, {1, 3, 5, 6, 8}}, 10, window));
  return cases;
}

TEST_CASE("attention and its parts", "[ops]") {
  for (const OpCase& c : attention_cases()) check_case(c);
}

}  // namespace nmt::testing
