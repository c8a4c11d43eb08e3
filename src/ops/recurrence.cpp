#include "ops/recurrence.h"

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/cache.h"
#include "ops/convolution.h"
#include "ops/heads.h"
#include "ops/linear.h"

namespace nmt {
namespace {

constexpr int64_t kTogether = 8;  // sentences, or rows, of a task: each reads the matrix once a step

void check_recurrence(std::string_view op, const Spec& x, const Spec& u) {
  check_activation(op, x);
  check(x.shape.rank() == 2 && u.shape == Shape{x.shape[1], x.shape[1]} && u.dtype == DType::kF32, "{}: {} with {}", op,
        x.shape, u.shape);
}

// A product of each row with the matrix.
double product_flops(const Tensor& x) {
  return 2.0 * static_cast<double>(x.elements()) * static_cast<double>(x.shape()[1]);
}

}  // namespace

Expr recurrence(Expr x, Expr u, Expr begin, bool reversed) {
  return x.graph().append(Recurrence{reversed}, {x, u, begin});
}
Expr recurrent_step(Expr x, Expr u, Expr cache, Expr slot, Expr entry, Expr length) {
  return x.graph().append(RecurrentStep{}, {x, u, cache, slot, entry, length});
}

std::vector<Spec> Recurrence::infer(std::span<const Spec> in) const {
  check_recurrence(kName, in[0], in[1]);
  check_begins(kName, in[2]);
  return {in[0]};
}

void Recurrence::backward(Backprop& b) const {
  const Expr h = b.output(0), begin = b.input(2);
  const Expr dx = b.graph().append(RecurrenceGradient{reversed}, {h, b.gradient(), b.input(1), begin});
  if (b.wants(0)) b.add(0, dx);
  if (b.wants(1))
    b.graph().append(LinearWeightGradient{}, {dx, neighbours(h, begin, reversed ? 1 : -1, 1)}, {b.sink(1)});
}

void Recurrence::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &h = l.out[0];
  l.runtime.pool().parallel_for(l.in[2].elements() - 1, kTogether, [&](int64_t begin, int64_t end) {
    cpu::recurrence(x.dtype(), begin, end, l.in[2].as<int32_t>(), reversed, x.shape()[1], x.data, l.in[1].as<float>(),
                    h.data);
  });
}

double Recurrence::flops(std::span<const Tensor> in) const { return product_flops(in[0]); }

std::vector<Spec> RecurrenceGradient::infer(std::span<const Spec> in) const {
  check_recurrence(kName, in[0], in[2]);
  check_begins(kName, in[3]);
  check(in[0] == in[1], "{}: {} and {}", kName, in[0].shape, in[1].shape);
  return {in[0]};
}

void RecurrenceGradient::cpu(const Launch& l) const {
  const Tensor& h = l.in[0];
  l.runtime.pool().parallel_for(l.in[3].elements() - 1, kTogether, [&](int64_t begin, int64_t end) {
    cpu::recurrence_backward(h.dtype(), begin, end, l.in[3].as<int32_t>(), reversed, h.shape()[1], h.data, l.in[1].data,
                             l.in[2].as<float>(), l.out[0].data);
  });
}

double RecurrenceGradient::flops(std::span<const Tensor> in) const { return product_flops(in[0]); }

std::vector<Spec> RecurrentStep::infer(std::span<const Spec> in) const {
  check_recurrence(kName, in[0], in[1]);
  check_cache(kName, in[0], in[2], in[3], in[4], in[5]);
  return {in[0]};
}

void RecurrentStep::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &cache = l.in[2], &h = l.out[0];
  l.runtime.pool().parallel_for(x.shape()[0], kTogether, [&](int64_t begin, int64_t end) {
    cpu::recurrent_step(x.dtype(), {begin, end}, x.shape()[1], x.data, l.in[1].as<float>(), cache.data,
                        l.in[4].as<int32_t>(), l.in[4].shape()[1], l.in[5].as<int32_t>(), h.data);
  });
  write_cache(h, 0, cache, l.in[3].as<int32_t>());
}

double RecurrentStep::flops(std::span<const Tensor> in) const { return product_flops(in[0]); }

}  // namespace nmt
