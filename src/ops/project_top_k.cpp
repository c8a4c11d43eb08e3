#include "ops/project_top_k.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "backend/cpu/kernels.h"
#include "base/aligned.h"
#include "base/error.h"
#include "base/math.h"
#include "graph/runtime.h"

namespace nmt {
namespace {

// One task looks for the best of so many rows in so many columns, a tile of logits at a time: the tile's part of the
// weight stays in L2, and is read from memory once for the rows of a usual search (kHost of
// decode/line_translator.cpp).
constexpr int64_t kTaskRows = 384, kTaskColumns = 8192, kTileRows = 96, kTileWeight = 1 << 19;
constexpr int64_t kRows = 64;  // of a task that sees all of a row's logits, or merges what tasks have found

// Columns of a tile, so that the weight's part of it stays in L2.
int64_t tile_columns(const cpu::PackedMatrix& weight) {
  return round_up(std::max<int64_t>(1, kTileWeight * weight.n() / std::max<int64_t>(1, weight.bytes())), cpu::kPanel);
}

struct Range {
  int64_t begin, end;
};

// Computes the logits of some rows of x and some columns of the weight (from a multiple of its tiles' columns on), and
// calls visit(row, first column, their logits) for each row of each tile, a row's columns rising.
template <class Visit>
void for_each_logits(const Tensor& x, const cpu::PackedMatrix& weight, Range rows, Range columns, const Visit& visit) {
  thread_local UnsetVector<float> logits;
  thread_local cpu::Operand operand;
  operand.assign(weight, rows.end - rows.begin, x.dtype(), x.at(rows.begin * weight.k()));
  const int64_t tile = tile_columns(weight);
  for (int64_t first = columns.begin; first < columns.end; first += tile)
    for (int64_t row = rows.begin; row < rows.end; row += kTileRows) {
      const int64_t width = std::min(tile, columns.end - first), count = std::min(kTileRows, rows.end - row);
      logits.resize(static_cast<size_t>(count * width));
      cpu::multiply_block(weight, first, first + width, operand, row - rows.begin, count, logits.data());
      for (int64_t r = 0; r < count; ++r)
        visit(row + r, first, std::span<const float>(logits.data() + r * width, static_cast<size_t>(width)));
    }
}

// Replaces each place among a mask's set bits by the column of that bit.
void to_columns(const uint8_t* mask, std::span<int32_t> places) {
  std::vector<size_t> rising(places.size());
  std::iota(rising.begin(), rising.end(), 0);
  std::ranges::sort(rising, {}, [&](size_t i) { return places[i]; });
  int64_t byte = 0, before = 0;  // bits set in the bytes before it
  const auto set = [&] { return std::popcount(mask[byte]); };
  for (const size_t i : rising) {
    for (; before + set() <= places[i]; ++byte) before += set();
    unsigned bits = mask[byte];
    for (int64_t skip = places[i] - before; skip > 0; --skip) bits &= bits - 1;
    places[i] = static_cast<int32_t>(8 * byte + std::countr_zero(bits));
  }
}

}  // namespace

Expr project_top_k(Expr x, Expr w, int k, Expr mask) {
  return mask ? x.graph().append(ProjectTopK{k}, {x, w, mask}) : x.graph().append(ProjectTopK{k}, {x, w});
}

std::vector<Spec> ProjectTopK::infer(std::span<const Spec> in) const {
  check(in[0].shape.rank() == 2 && in[1].shape.rank() == 2 && in[0].shape[1] == in[1].shape[1] && k >= 1 &&
            k <= in[1].shape[0],
        "{}: x {}, weight {}, k {}", kName, in[0].shape, in[1].shape, k);
  if (in.size() > 2)
    check(in[2].dtype == DType::kU8 && in[2].shape == Shape{in[0].shape[0], round_up(in[1].shape[0], 64) / 8},
          "{}: mask {} for x {}, weight {}", kName, in[2].shape, in[0].shape, in[1].shape);
  return {{{in[0].shape[0], k}, DType::kF32}, {{in[0].shape[0], k}, DType::kI32}};
}

void ProjectTopK::cpu(const Launch& l) const {
  if (l.in.size() > 2) return masked(l);
  const Tensor& x = l.in[0];
  const int64_t rows = x.shape()[0], width = l.in[1].shape()[0];
  const auto& packed = l.runtime.packed(l.in[1], x.dtype(), false);
  const int64_t tile = tile_columns(packed), columns = std::max(tile, kTaskColumns / tile * tile),
                parts = divide_up(width, columns), stride = rows * k;
  thread_local std::vector<float> all_values;  // of every part: the caller's
  thread_local std::vector<int32_t> all_ids;
  thread_local std::vector<cpu::BestLogits> all_best;
  all_values.resize(static_cast<size_t>(parts * stride));
  all_ids.resize(all_values.size());
  all_best.assign(static_cast<size_t>(parts * rows), {});
  float* const values = all_values.data();
  int32_t* const ids = all_ids.data();
  cpu::BestLogits* const best = all_best.data();
  l.runtime.pool().parallel_for(parts * divide_up(rows, kTaskRows), 1, [&](int64_t task, int64_t) {
    const int64_t part = task % parts, row = task / parts * kTaskRows, column = part * columns;
    for_each_logits(x, packed, {row, std::min(row + kTaskRows, rows)}, {column, std::min(column + columns, width)},
                    [&](int64_t r, int64_t first, std::span<const float> logits) {
                      cpu::find_best(logits.data(), std::ssize(logits), static_cast<int32_t>(first), k,
                                     best[r * parts + part], values + part * stride + r * k,
                                     ids + part * stride + r * k);
                    });
  });
  l.runtime.pool().parallel_for(rows, kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      cpu::merge_best(static_cast<int>(parts), best + r * parts, k, stride, values + r * k, ids + r * k,
                      l.out[0].as<float>() + r * k, l.out[1].as<int32_t>() + r * k);
  });
}

// A row's own logits are brought together before they are looked at: which others there are changes no rounding.
void ProjectTopK::masked(const Launch& l) const {
  const Tensor& x = l.in[0];
  const int64_t rows = x.shape()[0], width = l.in[1].shape()[0], mask_bytes = l.in[2].shape()[1];
  const auto& packed = l.runtime.packed(l.in[1], x.dtype(), false);
  const auto* masks = l.in[2].as<uint8_t>();
  l.runtime.pool().parallel_for(rows, kRows, [&](int64_t begin, int64_t end) {
    thread_local UnsetVector<float> kept;
    kept.resize(static_cast<size_t>((end - begin) * width));
    const auto kept_of = [&](int64_t r) { return kept.data() + (r - begin) * width; };
    std::vector<int64_t> count(static_cast<size_t>(end - begin));
    for_each_logits(x, packed, {begin, end}, {0, width}, [&](int64_t r, int64_t first, std::span<const float> logits) {
      int64_t& n = count[static_cast<size_t>(r - begin)];
      n += cpu::keep_logits(std::ssize(logits), masks + r * mask_bytes + first / 8, logits.data(), kept_of(r) + n);
    });
    std::vector<float> values(static_cast<size_t>(k));
    for (int64_t r = begin; r < end; ++r) {
      int32_t* ids = l.out[1].as<int32_t>() + r * k;
      cpu::BestLogits best;
      cpu::find_best(kept_of(r), count[static_cast<size_t>(r - begin)], 0, k, best, values.data(), ids);
      to_columns(masks + r * mask_bytes, {ids, static_cast<size_t>(best.found)});
      cpu::merge_best(1, &best, k, k, values.data(), ids, l.out[0].as<float>() + r * k, ids);
    }
  });
}

}  // namespace nmt
