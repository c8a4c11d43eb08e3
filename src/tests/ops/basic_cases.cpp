// fill, add, sum_leading.
#include "graph/basic_ops.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

Values plus(const Values& a, const Values& b) {
  Values y = a;
  for (size_t i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  return y;
}

OpCase add_case(const Shape& a, const Argument& b) {
  return {.name = "add " + a.str() + " " + b.shape.str(),
          .arguments = {input(a), b},
          .build = [](std::span<const Expr> x) { return add(x[0], x[1]); },
          .reference = [](const std::vector<Values>& x) { return plus(x[0], x[1]); }};
}

OpCase sum_case(const Shape& shape, int rank, bool keep_dtype) {
  return {.name = "sum_leading " + shape.str() + " to rank " + std::to_string(rank),
          .arguments = {input(shape)},
          .build = [=](std::span<const Expr> x) { return sum_leading(x[0], rank, keep_dtype); },
          .reference =
              [=](const std::vector<Values>& x) {
                Values y(static_cast<size_t>(last_axes(shape, rank).elements()));
                for (size_t i = 0; i < x[0].size(); ++i) y[i % y.size()] += x[0][i];
                return y;
              },
          .slack = 4};  // terms cancel
}

}  // namespace

std::vector<OpCase> basic_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{}, {1}, {7}, {33, 65}, {3, 7, 5}, {2, 3, 1, 7}, {2, 1, 3, 2, 2}, {0, 7}, {65, 513}})
    cases.push_back(add_case(shape, input(shape)));
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{33, 7}, {7}},
                                                                 {{3, 5, 7}, {5, 7}},
                                                                 {{3, 5, 7}, {7}},
                                                                 {{65, 33}, {}},
                                                                 {{300, 65}, {65}},
                                                                 {{0, 7}, {7}},
                                                                 {{7, 1}, {1}}}) {
    cases.push_back(add_case(a, input(b)));
    cases.push_back(add_case(a, parameter(b)));  // float32 where a is bf16
  }
  for (const Shape& shape : {Shape{7}, {33, 65}, {300, 7}, {3, 5, 7}, {0, 7}, {1}})
    for (int rank = 0; rank <= shape.rank(); ++rank)
      for (const bool keep_dtype : {true, false}) cases.push_back(sum_case(shape, rank, keep_dtype));
  for (const Shape& shape : {Shape{}, {7}, {33, 65}, {0, 3}})
    cases.push_back({.name = "fill " + shape.str(),
                     .arguments = {input(shape)},
                     .build = [](std::span<const Expr> x) { return add(x[0], fill(x[0].graph(), x[0].spec(), 2.5f)); },
                     .reference = [](const std::vector<Values>& x) { return plus(x[0], {2.5}); }});
  return cases;
}

TEST_CASE("fill, add, sum_leading", "[ops]") {
  for (const OpCase& c : basic_cases()) check_case(c);
}

}  // namespace nmt::testing
