#include "ops/embedding.h"

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "graph/runtime.h"
#include "ops/elementwise.h"

namespace nmt {

Expr embed(Expr table, Expr ids, Expr encodings, Expr positions, float factor, float rate) {
  Graph& g = table.graph();
  return g.append(Embed{g.runtime().compute(), factor, rate, rate > 0 ? g.next_dropout_site() : 0},
                  {table, ids, encodings, positions});
}

std::vector<Spec> Embed::infer(std::span<const Spec> in) const {
  check(in[0].shape.rank() == 2 && in[1].shape.rank() == 1 && in[1].shape == in[3].shape && in[2].shape.rank() == 2 &&
            in[2].shape[1] == in[0].shape[1] && in[1].dtype == DType::kI32 && in[3].dtype == DType::kI32,
        "embed: table {}, ids {}, encodings {}, positions {}", in[0].shape, in[1].shape, in[2].shape, in[3].shape);
  return {{{in[1].shape[0], in[0].shape[1]}, dtype}};
}

void Embed::backward(Backprop& b) const {
  const auto differentiate = [&](int table, int rows, float times) {
    if (b.wants(table))
      b.graph().append(EmbedGradient{b.input(table).shape()[0], times, rate, site}, {b.gradient(), b.input(rows)},
                       {b.sink(table)});
  };
  differentiate(0, 1, factor);
  differentiate(2, 3, 1);
}

void Embed::cpu(const Launch& l) const {
  const int64_t rows = l.in[1].elements(), width = l.in[0].shape()[1];
  const auto* ids = l.in[1].as<int32_t>();
  const auto* positions = l.in[3].as<int32_t>();
  for (int64_t r = 0; r < rows; ++r)
    check(ids[r] < l.in[0].shape()[0] && positions[r] < l.in[2].shape()[0],
          "embed: id {} or position {} is out of range", ids[r], positions[r]);
  l.runtime.pool().parallel_for(rows, 32, [&](int64_t begin, int64_t end) {
    cpu::embed(dtype, {begin, end}, width, l.in[0].as<float>(), ids, l.in[2].as<float>(), positions, factor,
               dropout_of(l.runtime, rate, site), l.out[0].data);
  });
}

std::vector<Spec> EmbedGradient::infer(std::span<const Spec> in) const {
  return {{{vocabulary, in[0].shape[1]}, DType::kF32}};
}

int64_t EmbedGradient::scratch(std::span<const Spec> in) const {
  return in[1].shape[0] * static_cast<int64_t>(sizeof(uint64_t) + sizeof(int32_t));
}

void EmbedGradient::cpu(const Launch& l) const {
  const int64_t rows = l.in[1].elements(), width = l.in[0].shape()[1];
  const auto* ids = l.in[1].as<int32_t>();
  // Rows by rising id, equal ones in their order: sorted as numbers, of id + 1 and row. Where negative ids, of no
  // token, come does not matter.
  const std::span keys(reinterpret_cast<uint64_t*>(l.scratch), static_cast<size_t>(rows));
  const std::span order(reinterpret_cast<int32_t*>(keys.data() + rows), keys.size());
  for (size_t r = 0; r < keys.size(); ++r) keys[r] = static_cast<uint64_t>(ids[r] + 1) << 32 | r;
  std::ranges::sort(keys);
  for (size_t r = 0; r < keys.size(); ++r) order[r] = static_cast<int32_t>(keys[r]);
  // Tasks begin where a new id does, so that each owns its rows of the table.
  constexpr int64_t kRows = 64;
  std::vector<int64_t> borders{0};
  for (int64_t i = 1; i < rows; ++i)
    if (i - borders.back() >= kRows && ids[order[static_cast<size_t>(i)]] != ids[order[static_cast<size_t>(i - 1)]])
      borders.push_back(i);
  borders.push_back(rows);
  l.runtime.pool().parallel_for(static_cast<int64_t>(borders.size()) - 1, 1, [&](int64_t begin, int64_t end) {
    cpu::embed_backward(l.in[0].dtype(), {borders[static_cast<size_t>(begin)], borders[static_cast<size_t>(end)]},
                        width, l.in[0].data, ids, order.data(), factor, dropout_of(l.runtime, rate, site),
                        l.out[0].as<float>());
  });
}

}  // namespace nmt
