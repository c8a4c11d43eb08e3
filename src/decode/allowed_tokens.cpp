#include "decode/allowed_tokens.h"

#include "base/math.h"

namespace nmt {

void AllowedTokens::begin(size_t sentence, std::span<const int32_t> source) {
  sentences_[sentence].ids = shortlist_.candidates(source);
}

void AllowedTokens::end(size_t sentence) { sentences_.erase(sentence); }

int64_t AllowedTokens::padded_size() const { return round_up(static_cast<int64_t>(ids_.size()), 256); }

void AllowedTokens::update() {
  std::vector<bool> used(position_.size());
  for (const auto& [number, sentence] : sentences_)
    for (const int32_t id : sentence.ids) used[static_cast<size_t>(id)] = true;
  ids_.clear();
  for (size_t id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    position_[id] = static_cast<int32_t>(ids_.size());
    ids_.push_back(static_cast<int32_t>(id));
  }
  for (auto& [number, sentence] : sentences_) {
    sentence.mask.assign(static_cast<size_t>(mask_bytes()), 0);
    for (const int32_t id : sentence.ids) {
      const auto i = static_cast<size_t>(position_[static_cast<size_t>(id)]);
      sentence.mask[i / 8] = static_cast<uint8_t>(sentence.mask[i / 8] | 1u << i % 8);
    }
  }
}

}  // namespace nmt
