#include "nn/packed_text.h"

#include <algorithm>

namespace nmt {

PackedText::PackedText(std::span<const int32_t> all, std::span<const int32_t> begins)
    : ids(all.begin(), all.end()), begin(begins.begin(), begins.end()), positions(all.size()) {
  for (size_t s = 0; s + 1 < begin.size(); ++s)
    for (int32_t i = begin[s]; i < begin[s + 1]; ++i) positions[static_cast<size_t>(i)] = i - begin[s];
}

PackedText PackedText::shifted() const {
  PackedText text = *this;
  for (size_t i = 0; i < ids.size(); ++i) text.ids[i] = positions[i] == 0 ? -1 : ids[i - 1];
  return text;
}

int64_t PackedText::longest() const {
  int64_t longest = 0;
  for (const int32_t position : positions) longest = std::max<int64_t>(longest, position + 1);
  return longest;
}

std::vector<int64_t> weight_begins(std::span<const int32_t> query_begin, std::span<const int32_t> key_begin) {
  std::vector<int64_t> sums(query_begin.size());
  for (size_t s = 0; s + 1 < sums.size(); ++s)
    sums[s + 1] =
        sums[s] + static_cast<int64_t>(query_begin[s + 1] - query_begin[s]) * (key_begin[s + 1] - key_begin[s]);
  return sums;
}

PairInput::PairInput(std::span<const int32_t> source_ids, std::span<const int32_t> source_begin,
                     std::span<const int32_t> target_ids, std::span<const int32_t> target_begin)
    : source(source_ids, source_begin),
      target(target_ids, target_begin),
      shifted(target.shifted()),
      source_weights(weight_begins(source_begin, source_begin)),
      target_weights(weight_begins(target_begin, target_begin)),
      cross_weights(weight_begins(target_begin, source_begin)) {}

}  // namespace nmt
