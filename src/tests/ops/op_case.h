#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/cpu/kernel_testing.h"

// One test case of an op says everything about it: how the graph computes it and what it is, in float64. The harness
// compares results and gradients for each dtype, with and without fusion, on one thread and several.
namespace nmt::testing {

using Values = std::vector<double>;

struct Argument {
  enum class Kind {
    kInput,      // of the compute dtype; its gradient is checked
    kConstant,   // the same without gradient
    kParameter,  // float32; its gradient is checked
    kF32,        // float32 without gradient
    kI32,        // given values
    kI64,
    kState  // of the compute dtype, written by the op; a fresh copy for each run
  };
  Shape shape;
  Kind kind = Kind::kInput;
  double spread = 1, offset = 0;  // of the random data
  Values values = {};             // given data
};

struct OpCase {
  std::string name;
  std::vector<Argument> arguments = {};
  std::function<Expr(std::span<const Expr>)> build = {};
  std::function<Values(const std::vector<Values>&)> reference = {};
  bool is_loss = false;  // gradients are those of the (one-element) result itself, not of a weighted sum
  bool differentiable = true;
  double slack = 1;             // factor of the tolerances below: for results of several roundings
  double unit = 0;              // errors are taken relative to this where all reference values are smaller
  bool rounds_to_bf16 = false;  // also where the compute dtype is float32
  bool kinked =
      false;  // without fusion, rounding to bf16 may move a value across the kink of a ReLU: no gradient there
  size_t probes = 150;  // elements of an argument that finite differences are taken of, where it has more
};

// Largest error over the largest reference value, by dtype. bf16 has 8 bits: a rounded result is within 2^-9, a sum of
// rounded terms a few times that.
struct Tolerance {
  DType dtype;
  double forward, gradient;
};
inline constexpr Tolerance kTolerances[] = {{DType::kF32, 2e-6, 5e-6}, {DType::kBF16, 1.0 / 128, 1.0 / 64}};

// Runs all checks of a case.
void check_case(const OpCase& c);

// All ops that a case computes with, forward and backward, fused and not: their names, and whether devices have them.
// Cases of which devices have all are computed there, too.
std::map<std::string, bool> ops_of(const OpCase& c);

// All there are, by file.
std::vector<OpCase> basic_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> normalize_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> layer_cases();  // convolution and recurrence
std::vector<OpCase> text_cases();   // embedding, losses, the best tokens

// The dropout mask of a case's runtime at a site, as factors.
const Values& case_dropout(float rate, uint32_t site, int64_t elements);

inline Argument input(const Shape& shape, double spread = 1) { return {.shape = shape, .spread = spread}; }
inline Argument parameter(const Shape& shape, double spread = 1, double offset = 0) {
  return {.shape = shape, .kind = Argument::Kind::kParameter, .spread = spread, .offset = offset};
}
inline Argument integers(const Values& values, Argument::Kind kind = Argument::Kind::kI32) {
  return {.shape = {static_cast<int64_t>(values.size())}, .kind = kind, .values = values};
}

}  // namespace nmt::testing
