// Matrix products.
#include "graph/basic_ops.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

// x [m, k] * w^T, w [n, k], + bias.
Values product(const Values& x, const Values& w, size_t n, size_t k, const Values& bias = {}) {
  const size_t m = k == 0 ? 0 : x.size() / k;
  Values y(m * n);
  for (size_t r = 0; r < m; ++r)
    for (size_t c = 0; c < n; ++c) {
      double sum = bias.empty() ? 0 : bias[c];
      for (size_t i = 0; i < k; ++i) sum += x[r * k + i] * w[c * k + i];
      y[r * n + c] = sum;
    }
  return y;
}

Values relu_of(Values y) {
  for (double& v : y) v = std::max(v, 0.0);
  return y;
}

OpCase linear_case(const Shape& x, int64_t n, bool bias, bool activate) {
  const int64_t k = x.dim(-1);
  OpCase c{.name = "linear " + x.str() + " to " + std::to_string(n) + (bias ? " bias" : "") + (activate ? " relu" : ""),
           .arguments = {input(x), parameter({n, k})},
           .build =
               [=](std::span<const Expr> a) {
                 const Expr y = linear(a[0], a[1], bias ? a[2] : Expr());
                 return activate ? relu(y) : y;
               },
           .reference =
               [=](const std::vector<Values>& a) {
                 const Values y =
                     product(a[0], a[1], static_cast<size_t>(n), static_cast<size_t>(k), bias ? a[2] : Values());
                 return activate ? relu_of(y) : y;
               },
           .slack = 2,
           .kinked = bias && activate};
  if (bias) c.arguments.push_back(parameter({n}));
  return c;
}

// [batch, m, k] * [batch, k, n]; a stored as [k, m], b as [n, k] where transposed.
OpCase matmul_case(const std::vector<int64_t>& batch, int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
  auto a = batch, b = batch;
  a.insert(a.end(), {ta ? k : m, ta ? m : k});
  b.insert(b.end(), {tb ? n : k, tb ? k : n});
  const Shape as(a), bs(b);
  return {.name = "matmul " + as.str() + (ta ? "'" : "") + " " + bs.str() + (tb ? "'" : ""),
          .arguments = {input(as), input(bs)},
          .build = [=](std::span<const Expr> x) { return matmul(x[0], x[1], ta, tb); },
          .reference =
              [=](const std::vector<Values>& x) {
                const int64_t count = Shape(batch).elements();
                Values y(static_cast<size_t>(count * m * n));
                for (int64_t i = 0; i < count * m * n; ++i) {
                  const int64_t matrix = i / (m * n), r = i / n % m, c = i % n;
                  for (int64_t j = 0; j < k; ++j)
                    y[static_cast<size_t>(i)] +=
                        x[0][static_cast<size_t>(matrix * m * k + (ta ? j * m + r : r * k + j))] *
                        x[1][static_cast<size_t>(matrix * k * n + (tb ? c * k + j : j * n + c))];
                }
                return y;
              },
          .slack = 2};
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const auto& [x, n] : std::vector<std::pair<Shape, int64_t>>{{{1, 1}, 1},
                                                                   {{7}, 5},
                                                                   {{7, 33}, 65},
                                                                   {{33, 7}, 7},
                                                                   {{65, 33}, 1},
                                                                   {{33, 1}, 33},
                                                                   {{3, 5, 7}, 9},
                                                                   {{2, 1, 3, 7}, 2},
                                                                   {{0, 7}, 5},
                                                                   {{70, 3}, 300},
                                                                   {{3, 270}, 7}})
    for (const bool bias : {false, true})
      for (const bool activate : {false, true}) cases.push_back(linear_case(x, n, bias, activate));
  // Gradients of residual connections: an addend of the transposed product.
  cases.push_back({.name = "x + linear(x)",
                   .arguments = {input({33, 7}), parameter({7, 7})},
                   .build = [](std::span<const Expr> a) { return add(a[0], linear(a[0], a[1])); },
                   .reference =
                       [](const std::vector<Values>& a) {
                         Values y = product(a[0], a[1], 7, 7);
                         for (size_t i = 0; i < y.size(); ++i) y[i] += a[0][i];
                         return y;
                       },
                   .slack = 2});
  cases.push_back(
      {.name = "linear(x) + linear(x), the second with bias and relu",
       .arguments = {input({33, 7}), parameter({5, 7}), parameter({5, 7}), parameter({5})},
       .build = [](std::span<const Expr> a) { return add(linear(a[0], a[1]), relu(linear(a[0], a[2], a[3]))); },
       .reference =
           [](const std::vector<Values>& a) {
             Values y = product(a[0], a[1], 5, 7);
             const Values z = relu_of(product(a[0], a[2], 5, 7, a[3]));
             for (size_t i = 0; i < y.size(); ++i) y[i] += z[i];
             return y;
           },
       .slack = 2,
       .kinked = true});
  // Its gradient passes where the ReLU's output is positive.
  cases.push_back(
      {.name = "linear(relu(linear(x)))",
       .arguments = {input({33, 7}), parameter({70, 7}), parameter({5, 70})},
       .build = [](std::span<const Expr> a) { return linear(relu(linear(a[0], a[1])), a[2]); },
       .reference =
           [](const std::vector<Values>& a) { return product(relu_of(product(a[0], a[1], 70, 7)), a[2], 5, 70); },
       .slack = 4});
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      cases.push_back(matmul_case({}, 7, 33, 5, ta, tb));
      cases.push_back(matmul_case({}, 1, 1, 1, ta, tb));
      cases.push_back(matmul_case({3}, 7, 5, 9, ta, tb));
      cases.push_back(matmul_case({2, 3}, 5, 7, 3, ta, tb));
      cases.push_back(matmul_case({0}, 5, 7, 3, ta, tb));
      cases.push_back(matmul_case({2}, 0, 7, 3, ta, tb));
      cases.push_back(matmul_case({2}, 5, 0, 3, ta, tb));
      cases.push_back(matmul_case({2}, 5, 7, 0, ta, tb));
      cases.push_back(matmul_case({2}, 65, 1, 33, ta, tb));
    }
  return cases;
}

TEST_CASE("matrix products", "[ops]") {
  for (const OpCase& c : linear_cases()) check_case(c);
}

}  // namespace nmt::testing
