#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "decode/shortlist.h"

namespace nmt {

// The target tokens that the sentences under way may use, each its own: probabilities are computed for all that one of
// them may use, and a mask leaves each sentence its own, so that no sentence changes what another may say.
class AllowedTokens {
 public:
  AllowedTokens(const Shortlist& shortlist, int32_t target_size)
      : shortlist_(shortlist), position_(static_cast<size_t>(target_size)) {}

  void begin(size_t sentence, std::span<const int32_t> source);
  void end(size_t sentence);
  // After sentences have begun: makes ids and masks anew.
  void update();

  std::span<const int32_t> ids() const { return ids_; }  // rising; what any sentence may use
  // As many as there are ids, and more that nobody may use: few sizes, as plans and products are kept for each.
  int64_t padded_size() const;
  int64_t mask_bytes() const { return padded_size() / 8; }
  // Bit i: the sentence may use ids()[i].
  std::span<const uint8_t> mask(size_t sentence) const { return sentences_.at(sentence).mask; }

 private:
  struct Sentence {
    std::vector<int32_t> ids;
    std::vector<uint8_t> mask;
  };

  const Shortlist& shortlist_;
  std::map<size_t, Sentence> sentences_;
  std::vector<int32_t> ids_, position_;  // by target token: its place in ids_
};

}  // namespace nmt
