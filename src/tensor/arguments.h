#pragma once

#include <cstdint>

#include "tensor/on_device.h"

// What the kernels of every backend are told; they compute the same.
namespace nmt {

// What is applied to a product's elements.
enum class Activation : uint8_t { kNone, kRelu };

// Inverted dropout: element i is kept where its 16-bit Philox lane is >= round(rate * 65536), and then scaled by
// 1 / (1 - rate). site: which of a model's dropouts it is. The block of lanes of elements 8b .. 8b+7 is Philox(counter
// = {low(b), high(b), site, step}, key = seed): lane k is the half k % 2 (low first) of word k / 2. Nothing is stored:
// forward and backward recompute the mask.
struct Dropout {
  float rate = 0;
  uint32_t site = 0, step = 0;
  uint64_t seed = 0;
};

// Which keys a query of attention sees, by their positions in the sentence: query i sees the keys first(i) .. end(i,
// keys), and key j is seen by the queries first_query(j) .. end_query(j, queries).
struct KeyMask {
  bool causal;  // none behind the query
  int window;   // none farther away than so many positions ("Attention Is All You Need", section 4); 0: any

  NMT_ON_DEVICE_TOO constexpr KeyMask(bool causal = false, int window = 0) : causal(causal), window(window) {}

  // The same by distance: how far before itself and behind itself a query sees.
  NMT_ON_DEVICE_TOO constexpr int before() const { return window > 0 ? window : INT32_MAX; }
  NMT_ON_DEVICE_TOO constexpr int behind() const { return causal ? 0 : before(); }

  template <class Int>
  NMT_ON_DEVICE_TOO constexpr Int first(Int i) const {
    return window > 0 && i > window ? i - window : 0;
  }
  template <class Int>
  NMT_ON_DEVICE_TOO constexpr Int end(Int i, Int keys) const {
    const Int last = causal ? i + 1 : window > 0 ? i + window + 1 : keys;
    return last < keys ? last : keys;
  }
  template <class Int>
  NMT_ON_DEVICE_TOO constexpr Int first_query(Int j) const {
    return causal ? j : first(j);
  }
  template <class Int>
  NMT_ON_DEVICE_TOO constexpr Int end_query(Int j, Int queries) const {
    return window > 0 && j + window + 1 < queries ? j + window + 1 : queries;
  }

  bool operator==(const KeyMask&) const = default;
};

// Scaled dot-product attention, softmax(scale * Q K^T) V ("Attention Is All You Need", equation 1) over packed
// sentences: the queries of sentence s are rows q_begin[s] .. q_begin[s+1] of q, its keys and values rows k_begin[s] ..
// of k and v. Head h reads columns h * d_k .. of q and k and h * d_v .. of v; the row strides (elements) let q, k, v be
// column ranges of one product. Keys that the mask hides have no weight. Dropout on the weights: element index
// of (h, query i, key j) of sentence s is h * weight_begin[sentences] + weight_begin[s] + i * Lk + j, weight_begin =
// running sum of Lq * Lk. out is [queries, heads * d_v] (stride out_stride); logsumexp [heads, queries] is saved for
// backward.
struct Attention {
  int64_t sentences;
  const int32_t *q_begin, *k_begin;
  const int64_t* weight_begin;  // sentences + 1 entries
  int heads, d_k, d_v;
  float scale;
  KeyMask mask;
  Dropout dropout;
  int64_t q_stride, k_stride, v_stride, out_stride;
};

// Of so many cached keys a query sees the last ones; window 0: all.
NMT_ON_DEVICE_TOO constexpr int32_t cached_keys_seen(int32_t length, int window) {
  return window > 0 && length > window ? window + 1 : length;
}

// Attention in a step of decoding, with heads and columns as above: row r of q is one query, whose keys and values are
// the rows entry[r * entry_stride + j] of their caches, j in [0, length[r]), of which it sees the last
// cached_keys_seen(). Of none, out is zero.
struct AttentionOverCache {
  int heads, d_k, d_v, window;
  float scale;
  const int32_t* entry;
  int64_t entry_stride;
  const int32_t* length;
  int64_t q_stride, k_stride, v_stride, out_stride;
};

// The widest rows whose layer norms devices compute, in columns.
inline constexpr int kWidestLayerNormOfDevices = 4096;

}  // namespace nmt
