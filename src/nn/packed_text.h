#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nmt {

// The numbers a packed batch needs beside its ids; lives as long as the graph that reads it.
struct PackedText {
  std::vector<int32_t> ids;        // one sentence after another
  std::vector<int32_t> begin;      // sentences + 1
  std::vector<int32_t> positions;  // of each token in its sentence, from 0

  PackedText() = default;
  PackedText(std::span<const int32_t> ids, std::span<const int32_t> begin);
  // The decoder's input: shifted right by one within each sentence, -1 (a zero vector) first.
  PackedText shifted() const;
  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
  int64_t longest() const;  // tokens of the longest sentence
};

// Running sum of queries * keys of each sentence.
std::vector<int64_t> weight_begins(std::span<const int32_t> query_begin, std::span<const int32_t> key_begin);

// A training or scoring batch as the model reads it.
struct PairInput {
  PackedText source, target, shifted;
  std::vector<int64_t> source_weights, target_weights, cross_weights;

  PairInput(std::span<const int32_t> source, std::span<const int32_t> source_begin, std::span<const int32_t> target,
            std::span<const int32_t> target_begin);
};

}  // namespace nmt
