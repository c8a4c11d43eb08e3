#include "graph/basic_ops.h"

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "base/math.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

constexpr int64_t kRowsOfSum = 128;  // rows of one partial sum: a constant, so that sums are the same everywhere

// b as elements of dtype t: itself, or converted into `room`.
const void* as_dtype(const Tensor& b, DType t, std::vector<std::byte>& room) {
  if (b.dtype() == t) return b.data;
  room.resize(static_cast<size_t>(b.elements()) * size_of(t));
  cpu::convert(b.dtype(), b.data, t, room.data(), b.elements());
  return room.data();
}

}  // namespace

Shape last_axes(const Shape& shape, int rank) {
  return Shape(std::span(shape.begin() + (shape.rank() - rank), static_cast<size_t>(rank)));
}

void check_broadcast(std::string_view op, const Spec& a, const Spec& b) {
  const int rank = b.shape.rank();
  check(rank <= a.shape.rank() && last_axes(a.shape, rank) == b.shape, "{}: shape {} is neither {} nor its last axes",
        op, b.shape, a.shape);
  check(b.dtype == a.dtype || b.dtype == DType::kF32, "{}: {} does not combine with {}", op, name_of(a.dtype),
        name_of(b.dtype));
}

void check_activation(std::string_view op, const Spec& x) {
  check(x.dtype == DType::kF32 || x.dtype == DType::kBF16 || x.dtype == DType::kF16, "{}: nothing is computed of {} {}",
        op, name_of(x.dtype), x.shape);
}

Expr fill(Graph& graph, const Spec& spec, float value) { return graph.append(Fill{spec, value}, {}); }

void Fill::cpu(const Launch& l) const {
  const Tensor& y = l.out[0];
  if (y.elements() == 0) return;
  cpu::convert(DType::kF32, &value, y.dtype(), y.data, 1);
  for (int64_t i = 1; i < y.elements(); ++i) std::copy_n(y.at(0), y.bytes(1), y.at(i));
}

Expr add(Expr a, Expr b) { return a.graph().append(Add{}, {a, b}); }

std::vector<Spec> Add::infer(std::span<const Spec> in) const {
  check_activation(kName, in[0]);
  check_broadcast(kName, in[0], in[1]);
  return {in[0]};
}

void add_broadcast_gradient(Backprop& b, int i, Expr g) {
  if (!b.wants(i)) return;
  const int rank = b.input(i).shape().rank();
  if (b.graph().node_at(b.sink(i)).parameter) {
    b.graph().append(SumLeading{rank, false, true}, {g}, {b.sink(i)});
  } else if (b.input(i).shape() == g.shape()) {
    b.add(i, g);
  } else {
    b.add(i, sum_leading(g, rank, b.input(i).dtype() == g.dtype()));
  }
}

void Add::backward(Backprop& b) const {
  if (b.wants(0)) b.add(0, b.gradient());
  add_broadcast_gradient(b, 1, b.gradient());
}

void Add::cpu(const Launch& l) const {
  const Tensor& y = l.out[0];
  std::vector<std::byte> room;
  const auto* a = static_cast<const std::byte*>(l.in[0].data);
  const auto* b = static_cast<const std::byte*>(as_dtype(l.in[1], y.dtype(), room));
  auto* out = static_cast<std::byte*>(y.data);
  const auto size = static_cast<int64_t>(size_of(y.dtype()));
  const int64_t n = y.elements(), period = l.in[1].elements();
  if (period == n) {
    l.runtime.pool().parallel_for(n, kElementGrain,
                                  [&](int64_t begin, int64_t end) { cpu::add(y.dtype(), begin, end, a, b, out); });
  } else if (n > 0) {
    l.runtime.pool().parallel_for(
        n / period, std::max<int64_t>(1, kElementGrain / period), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            cpu::add(y.dtype(), 0, period, a + row * period * size, b, out + row * period * size);
        });
  }
}

Expr sum_leading(Expr x, int rank, bool keep_dtype) {
  return x.graph().append(SumLeading{rank, keep_dtype, false}, {x});
}

std::vector<Spec> SumLeading::infer(std::span<const Spec> in) const {
  check_activation(kName, in[0]);
  check(rank >= 0 && rank <= in[0].shape.rank(), "{}: {} has no {} axes", kName, in[0].shape, rank);
  return {{last_axes(in[0].shape, rank), keep_dtype ? in[0].dtype : DType::kF32}};
}

void SumLeading::backward(Backprop& b) const {
  if (b.wants(0)) b.add(0, add(fill(b.graph(), b.input(0).spec(), 0.f), b.gradient()));
}

int64_t SumLeading::scratch(std::span<const Spec> in) const {
  const int64_t width = last_axes(in[0].shape, rank).elements();
  const int64_t rows = width == 0 ? 0 : in[0].shape.elements() / width;
  return (divide_up(rows, kRowsOfSum) + 1) * width * static_cast<int64_t>(sizeof(float));
}

void SumLeading::cpu(const Launch& l) const {
  const Tensor& x = l.in[0];
  const int64_t width = l.out[0].elements(), rows = width == 0 ? 0 : x.elements() / width;
  const int64_t chunks = divide_up(rows, kRowsOfSum);
  auto* partial = reinterpret_cast<float*>(l.scratch);
  auto* total = accumulate ? l.out[0].as<float>() : partial + chunks * width;
  l.runtime.pool().parallel_for(rows, kRowsOfSum, [&](int64_t begin, int64_t end) {
    float* sums = partial + begin / kRowsOfSum * width;
    std::fill_n(sums, width, 0.f);
    cpu::column_sums(x.dtype(), {begin, end}, width, x.data, sums);
  });
  if (!accumulate) std::fill_n(total, width, 0.f);
  for (int64_t c = 0; c < chunks; ++c) cpu::add_f32(0, width, partial + c * width, total);
  if (!accumulate) cpu::convert(DType::kF32, total, l.out[0].dtype(), l.out[0].data, width);
}

}  // namespace nmt
