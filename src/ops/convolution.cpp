#include "ops/convolution.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/cache.h"
#include "ops/heads.h"

namespace nmt {
namespace {

constexpr int64_t kSentences = 8;  // of a task

// f(r, part, other): part `part` of y[r] is x[other], for the sentences begin .. end.
template <class F>
void for_neighbours(const int32_t* begins, int64_t begin, int64_t end, int first, int count, F f) {
  for (int64_t s = begin; s < end; ++s)
    for (int64_t r = begins[s]; r < begins[s + 1]; ++r)
      for (int part = 0; part < count; ++part)
        if (const int64_t other = r + first + part; other >= begins[s] && other < begins[s + 1]) f(r, part, other);
}

void check_neighbours(std::string_view op, const Spec& x, const Spec& begin, int count) {
  check_activation(op, x);
  check(x.shape.rank() == 2 && count > 0, "{}: {} of {}", op, count, x.shape);
  check_begins(op, begin);
}

}  // namespace

Expr neighbours(Expr x, Expr begin, int first, int count) {
  return x.graph().append(Neighbours{first, count}, {x, begin});
}
Expr cached_neighbours(Expr x, Expr cache, Expr slot, Expr entry, Expr length, int count) {
  return x.graph().append(CachedNeighbours{count}, {x, cache, slot, entry, length});
}

std::vector<Spec> Neighbours::infer(std::span<const Spec> in) const {
  check_neighbours(kName, in[0], in[1], count);
  return {{{in[0].shape[0], in[0].shape[1] * count}, in[0].dtype}};
}

void Neighbours::backward(Backprop& b) const {
  if (b.wants(0)) b.add(0, b.graph().append(NeighboursGradient{first, count}, {b.gradient(), b.input(1)}));
}

void Neighbours::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &y = l.out[0];
  const auto* begins = l.in[1].as<int32_t>();
  const int64_t width = x.shape()[1];
  l.runtime.pool().parallel_for(l.in[1].elements() - 1, kSentences, [&](int64_t begin, int64_t end) {
    const int64_t first_row = begins[begin], rows = begins[end] - first_row;
    std::fill_n(y.at(first_row * count * width), y.bytes(rows * count * width), std::byte{0});
    for_neighbours(begins, begin, end, first, count, [&](int64_t r, int part, int64_t other) {
      std::copy_n(x.at(other * width), x.bytes(width), y.at((r * count + part) * width));
    });
  });
}

std::vector<Spec> NeighboursGradient::infer(std::span<const Spec> in) const {
  check_neighbours(kName, in[0], in[1], count);
  return {{{in[0].shape[0], in[0].shape[1] / count}, in[0].dtype}};
}

void NeighboursGradient::cpu(const Launch& l) const {
  const Tensor &dy = l.in[0], &dx = l.out[0];
  const auto* begins = l.in[1].as<int32_t>();
  const int64_t width = dx.shape()[1];
  l.runtime.pool().parallel_for(l.in[1].elements() - 1, kSentences, [&](int64_t begin, int64_t end) {
    const int64_t rows = begins[end] - begins[begin];
    std::fill_n(dx.at(begins[begin] * width), dx.bytes(rows * width), std::byte{0});
    for_neighbours(begins, begin, end, first, count, [&](int64_t r, int part, int64_t other) {
      cpu::add(dx.dtype(), 0, width, dx.at(other * width), dy.at((r * count + part) * width), dx.at(other * width));
    });
  });
}

std::vector<Spec> CachedNeighbours::infer(std::span<const Spec> in) const {
  check_cache(kName, in[0], in[1], in[2], in[3], in[4]);
  return {{{in[0].shape[0], in[0].shape[1] * count}, in[0].dtype}};
}

void CachedNeighbours::cpu(const Launch& l) const {
  const Tensor &x = l.in[0], &cache = l.in[1], &y = l.out[0];
  const auto *entry = l.in[3].as<int32_t>(), *length = l.in[4].as<int32_t>();
  const int64_t width = x.shape()[1], stride = l.in[3].shape()[1];
  write_cache(x, 0, cache, l.in[2].as<int32_t>());
  std::fill_n(y.as<std::byte>(), y.spec.bytes(), std::byte{0});
  for (int64_t r = 0; r < x.shape()[0]; ++r)
    for (int64_t part = std::max(0, count - length[r]); part < count; ++part)
      std::copy_n(cache.at(entry[r * stride + length[r] - count + part] * width), x.bytes(width),
                  y.at((r * count + part) * width));
}

}  // namespace nmt
