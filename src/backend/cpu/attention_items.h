#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "tensor/arguments.h"

// How kernels of attention cut their work: into items, these into blocks of queries, of which each sees some keys.
namespace nmt::cpu {

// A row length for so many floats: rows a multiple of 512 bytes apart would share few sets of the cache.
constexpr int64_t apart(int64_t floats) { return floats % 128 == 0 ? floats + 16 : floats; }

// A (sentence, head): first rows, numbers of rows, and the element of its first weight for dropout.
struct Item {
  Item(const Attention& a, int64_t item)
      : head(item % a.heads),
        q_first(a.q_begin[item / a.heads]),
        k_first(a.k_begin[item / a.heads]),
        queries(a.q_begin[item / a.heads + 1] - q_first),
        keys(a.k_begin[item / a.heads + 1] - k_first),
        weight_first(head * a.weight_begin[a.sentences] + a.weight_begin[item / a.heads]),
        q_at(q_first * a.q_stride + head * a.d_k),
        k_at(k_first * a.k_stride + head * a.d_k),
        v_at(k_first * a.v_stride + head * a.d_v),
        out_at(q_first * a.out_stride + head * a.d_v),
        logsumexp_at(head * a.q_begin[a.sentences] + q_first) {}

  int64_t head, q_first, k_first, queries, keys, weight_first;
  int64_t q_at, k_at, v_at, out_at, logsumexp_at;  // where its rows begin in the arguments
};

// Queries whose scores are in scratch at a time, a multiple of `unit` unless all: few enough to stay in the cache,
// enough, `fewest`, to use a key well. With a window no more than it has positions: the block's queries together see
// few keys that not all of them see.
inline int64_t query_block(const Item& item, const KeyMask& mask, int64_t fewest, int64_t unit) {
  constexpr int64_t kScores = 8192;
  if (item.queries <= fewest) return item.queries;
  int64_t most = std::max(fewest, kScores / std::max<int64_t>(1, item.keys));
  if (mask.window > 0) most = std::min(most, std::max<int64_t>(fewest, mask.window));
  return round_up(divide_up(item.queries, divide_up(item.queries, most)), unit);
}

// What causal attention makes zero, or leaves unread, in a product of a block of queries that begins at query
// `diagonal` of the keys that it sees: query i sees keys 0 .. i.
enum class Triangle : uint8_t {
  kNone,
  kOutput,  // rows are queries, columns keys: columns n > diagonal + m of c are not needed (they stay undefined)
  kLower,   // rows are queries, the sum is over keys: a(m, k) = 0 where k > diagonal + m
  kUpper,   // rows are keys, the sum is over queries: a(m, k) = 0 where k < m - diagonal
};

// What a block of queries sees: `count` keys from `first` on, a multiple of `unit`. Rows of scores have these keys
// alone, and then what fills them up to whole units.
struct SeenKeys {
  SeenKeys(const KeyMask& mask, const Item& item, int64_t begin, int64_t rows, int64_t unit)
      : mask(mask),
        keys(item.keys),
        begin(begin),
        rows(rows),
        first(mask.first(begin) / unit * unit),
        count(std::max<int64_t>(0, mask.end(begin + rows - 1, keys) - first)),
        padded(round_up(count, unit)) {}

  // Of these, query i sees first_of(i) .. end_of(i).
  int64_t first_of(int64_t i) const { return std::min(mask.first(i) - first, count); }
  int64_t end_of(int64_t i) const {  // 0: none of them
    const int64_t end = mask.end(i, keys) - first;
    return end > first_of(i) ? end : 0;
  }

  // Of the block's products.
  Triangle triangle(Triangle t) const { return mask.causal ? t : Triangle::kNone; }
  int64_t diagonal() const { return begin - first; }

  KeyMask mask;
  int64_t keys, begin, rows, first, count, padded;
};

}  // namespace nmt::cpu
