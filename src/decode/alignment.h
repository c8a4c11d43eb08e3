#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/options.h"
#include "decode/attention_weights.h"

namespace nmt {

// How words are aligned by the decoder's attention to the source.
struct AlignmentOptions {
  int layer = 0;  // of the decoder, from 1; 0: the last but one, where heads' mean aligns best (Garg et al. 2019)
  int head = 0;   // from 1; 0: the mean of all
  double threshold = 0;
  std::string step = "output";

  void declare(Options& options);
  // Throws UserError where the model has no such layer or head.
  void check_model(const ModelConfig& config) const;
  bool operator==(const AlignmentOptions&) const = default;
};

// A source word and a target word, from 0.
struct WordLink {
  int32_t source, target;
  auto operator<=>(const WordLink&) const = default;
};

// The weight between two words is the sum over the source word's pieces of the mean over the target word's pieces and
// the heads; </s> is no word. With a threshold, words are linked whose weight is at least that; else each target word
// with the source word of its largest weight (the first of equal ones). A target piece's weights are those with which
// it is predicted (step "output"), or with which it is then read and the next one predicted (step "input", Chen et al.
// 2020). *_words: the number of each piece's word, -1 for </s>. Sorted.
std::vector<WordLink> align_words(const AttentionWeights& cross, std::span<const int32_t> source_words,
                                  std::span<const int32_t> target_words, const AlignmentOptions& options);

// "0-0 1-2"
std::string alignment_text(std::span<const WordLink> links);

}  // namespace nmt
