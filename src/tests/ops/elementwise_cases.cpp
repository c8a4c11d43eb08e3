// Activations, products, scaling, conversion, dropout.
#include <numbers>

#include "ops/elementwise.h"
#include "tests/ops/op_case.h"

namespace nmt::testing {
namespace {

const Shape kShapes[] = {{}, {1}, {7}, {33}, {65, 33}, {3, 7, 5}, {2, 3, 1, 7}, {0}, {7, 0}, {65, 513}};

using Build = Expr (*)(Expr);
using Function = double (*)(double);

OpCase unary_case(const std::string& name, const Shape& shape, Build build, Function f) {
  return {.name = name + " " + shape.str(),
          .arguments = {input(shape, 1.5)},
          .build = [=](std::span<const Expr> x) { return build(x[0]); },
          .reference =
              [=](const std::vector<Values>& x) {
                Values y = x[0];
                for (double& v : y) v = f(v);
                return y;
              }};
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : kShapes) {
    cases.push_back(unary_case("relu", shape, relu, [](double x) { return x > 0 ? x : 0; }));
    cases.push_back(
        unary_case("gelu", shape, gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }));
    cases.push_back(unary_case("silu", shape, silu, [](double x) { return x / (1 + std::exp(-x)); }));
    cases.push_back(unary_case(
        "scale", shape, [](Expr x) { return scale(x, -1.75f); }, [](double x) { return -1.75 * x; }));
    cases.push_back(unary_case(
        "cast", shape, [](Expr x) { return cast(x, x.dtype() == DType::kF32 ? DType::kBF16 : DType::kF32); },
        [](double x) { return x; }));
    cases.back().rounds_to_bf16 = true;
    cases.push_back(unary_case(
        "cast to itself", shape, [](Expr x) { return cast(x, x.dtype()); }, [](double x) { return x; }));
    cases.push_back({.name = "multiply " + shape.str(),
                     .arguments = {input(shape), input(shape)},
                     .build = [](std::span<const Expr> x) { return multiply(x[0], x[1]); },
                     .reference =
                         [](const std::vector<Values>& x) {
                           Values y = x[0];
                           for (size_t i = 0; i < y.size(); ++i) y[i] *= x[1][i];
                           return y;
                         }});
    for (const float rate : {0.f, 0.3f})  // the second of two places
      cases.push_back({.name = "dropout " + shape.str(),
                       .arguments = {input(shape)},
                       .build =
                           [=](std::span<const Expr> x) {
                             x[0].graph().next_dropout_site();
                             return dropout(x[0], rate);
                           },
                       .reference =
                           [=](const std::vector<Values>& x) {
                             Values y = case_dropout(rate, 1, static_cast<int64_t>(x[0].size()));
                             for (size_t i = 0; i < y.size(); ++i) y[i] *= x[0][i];
                             return y;
                           }});
  }
  return cases;
}

TEST_CASE("elementwise ops", "[ops]") {
  for (const OpCase& c : elementwise_cases()) check_case(c);
}

}  // namespace nmt::testing
