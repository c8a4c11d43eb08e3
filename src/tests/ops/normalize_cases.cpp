// Softmax, log-softmax, layer normalisation.
#include "graph/basic_ops.h"
#include "ops/elementwise.h"
#include "ops/normalize.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

template <class Row>
Values by_rows(Values x, int64_t width, Row row) {
  for (size_t begin = 0; width > 0 && begin < x.size(); begin += static_cast<size_t>(width))
    row(std::span(x).subspan(begin, static_cast<size_t>(width)));
  return x;
}

Values softmax_of(const Values& x, int64_t width, bool log) {
  return by_rows(x, width, [&](std::span<double> row) {
    const double high = *std::ranges::max_element(row);
    double sum = 0;
    for (const double v : row) sum += std::exp(v - high);
    for (double& v : row) v = log ? v - high - std::log(sum) : std::exp(v - high) / sum;
  });
}

Values normalised(const Values& x, int64_t width, const Values& scale, const Values& bias, double eps) {
  return by_rows(x, width, [&](std::span<double> row) {
    double mean = 0, variance = 0;
    for (const double v : row) mean += v / static_cast<double>(width);
    for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(width);
    for (size_t i = 0; i < row.size(); ++i) row[i] = (row[i] - mean) / std::sqrt(variance + eps) * scale[i] + bias[i];
  });
}

const Shape kShapes[] = {{1},       {7},          {33},   {7, 1},   {7, 33},  {5, 65},
                         {3, 5, 7}, {2, 3, 1, 7}, {0, 7}, {130, 9}, {300, 65}};

// layer_norm(x + dropout(y)).
OpCase residual_case(const Shape& shape, float rate) {
  const int64_t width = shape.dim(-1);
  return {.name = "layer_norm(x + dropout(y)) " + shape.str() + " " + std::to_string(rate),
          .arguments = {input(shape), input(shape), parameter({width}, 0.3, 1), parameter({width})},
          .build =
              [=](std::span<const Expr> a) {
                a[0].graph().next_dropout_site();  // the second site
                return layer_norm(add(a[0], dropout(a[1], rate)), a[2], a[3]);
              },
          .reference =
              [=](const std::vector<Values>& a) {
                Values sum = case_dropout(rate, 1, static_cast<int64_t>(a[0].size()));
                for (size_t i = 0; i < sum.size(); ++i) sum[i] = a[0][i] + sum[i] * a[1][i];
                return normalised(sum, width, a[2], a[3], 1e-6);
              },
          .slack = 3};
}

}  // namespace

std::vector<OpCase> normalize_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kShapes) {
    const int64_t width = shape.dim(-1);
    for (const bool log : {false, true})
      cases.push_back({.name = std::string(log ? "log_softmax " : "softmax ") + shape.str(),
                       .arguments = {input(shape, 2)},
                       .build = [=](std::span<const Expr> a) { return log ? log_softmax(a[0]) : softmax(a[0]); },
                       .reference = [=](const std::vector<Values>& a) { return softmax_of(a[0], width, log); }});
    for (const float eps : {1e-6f, 0.1f})
      cases.push_back(
          {.name = "layer_norm " + shape.str(),
           .arguments = {input(shape), parameter({width}, 0.3, 1), parameter({width})},
           .build = [=](std::span<const Expr> a) { return layer_norm(a[0], a[1], a[2], eps); },
           .reference = [=](const std::vector<Values>& a) { return normalised(a[0], width, a[1], a[2], eps); },
           .slack = 2,
           .unit = width == 1 ? 1 / std::sqrt(eps) : 0});
    if (width > 1) {
      cases.push_back(residual_case(shape, 0));
      cases.push_back(residual_case(shape, 0.3f));
    }
  }
  return cases;
}

TEST_CASE("softmax and layer normalisation", "[ops]") {
  for (const OpCase& c : normalize_cases()) check_case(c);
}

}  // namespace nmt::testing
