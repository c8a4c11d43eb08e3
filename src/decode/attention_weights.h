#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/search.h"
#include "text/vocab.h"

namespace nmt {

// The weights of one kind of attention in one sentence pair: every row of keys sums to 1.
struct AttentionWeights {
  int64_t layers = 0, heads = 0, queries = 0, keys = 0;
  std::vector<float> values;  // [layers, heads, queries, keys]

  // All counts from 0.
  std::span<const float> row(int64_t layer, int64_t head, int64_t query) const {
    const auto first = ((layer * heads + head) * queries + query) * keys;
    return std::span(values).subspan(static_cast<size_t>(first), static_cast<size_t>(keys));
  }
};

// What a model attends to where it reads a source and predicts its translation (section 3.2.3), both with </s>. Row t
// of the target predicts its token t, and has read those before.
struct PairAttention {
  AttentionWeights encoder;  // source to source
  AttentionWeights decoder;  // target to what it has read: column 0 is the start, column u token u - 1; 0 where u > t
  AttentionWeights cross;    // target to source
};

// Runs the training graph on each pair, in their order, and hands over the weights of the layers that have such
// attention: those to the source and, if asked for, those of encoder and decoder to themselves. Throws Error where a
// weight is not a number.
using AttentionDone = std::function<void(const IdPair& pair, const PairAttention& attention)>;
void read_attention(const Scorer& scorer, Runtime& runtime, std::span<const IdPair> pairs, bool self,
                    const AttentionDone& done);

// A line of JSON: {"source": pieces, "target": pieces, "encoder": weights, "decoder": weights, "cross": weights}, the
// weights as lists by layer, head, query and key, rounded to so many decimals. Of the decoder's row t only the t + 1
// weights that can be more than 0.
std::string attention_json(const IdPair& pair, const PairAttention& attention, const Vocab& source, const Vocab& target,
                           int decimals);

}  // namespace nmt
