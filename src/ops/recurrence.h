#pragma once

#include "graph/graph.h"

// A recurrent layer without gates (Elman 1990): as many steps one after another as a sentence has tokens.
namespace nmt {

// h_t = tanh(x_t + U h_{t-1}) along each sentence, from its end to its beginning where reversed; before the first state
// zeros. x: [rows, d]; u: a parameter [d, d]; begin: int32 [sentences + 1], see Segments.
Expr recurrence(Expr x, Expr u, Expr begin, bool reversed);

// Decoding, one step of each row: the state before is cache row entry[r][length[r] - 2], none where length[r] is 1; the
// new one is written to row slot[r] of the cache, a state [capacity, d].
Expr recurrent_step(Expr x, Expr u, Expr cache, Expr slot, Expr entry, Expr length);

struct Recurrence {  // inputs: x, u, begin
  static constexpr std::string_view kName = "recurrence";
  bool reversed;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void backward(Backprop& b) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const Recurrence&) const = default;
};

struct RecurrenceGradient {  // inputs: h, its gradient, u, begin; the output is the gradient of x
  static constexpr std::string_view kName = "recurrence_gradient";
  bool reversed;

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const RecurrenceGradient&) const = default;
};

struct RecurrentStep {  // inputs: x, u, cache, slot, entry, length
  static constexpr std::string_view kName = "recurrent_step";

  std::vector<Spec> infer(std::span<const Spec> in) const;
  void cpu(const Launch& l) const;
  double flops(std::span<const Tensor> in) const;
  bool operator==(const RecurrentStep&) const = default;
};

}  // namespace nmt
