#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nmt::metrics {

using Symbols = std::vector<uint32_t>;

// Numbers words so that equal words, and only they, have equal numbers. The words' text must outlive it.
class WordNumbers {
 public:
  Symbols operator()(std::span<const std::string_view> words) {
    Symbols symbols;
    symbols.reserve(words.size());
    for (const auto word : words)
      symbols.push_back(numbers_.emplace(word, static_cast<uint32_t>(numbers_.size())).first->second);
    return symbols;
  }

 private:
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

// Calls visit(counts) for each order 1 to max_order, where counts[s][k] says how often the k-th distinct n-gram of the
// order occurs in sequence s. Exact: an n-gram is numbered by sorting pairs (its first n-1 symbols' number, its last
// symbol), so no hash can be wrong.
template <class Visit>
void count_ngrams(std::span<const Symbols> sequences, int max_order, Visit visit) {
  struct Gram {
    uint64_t key;
    uint32_t sequence, position;
    bool operator<(const Gram& other) const { return key < other.key; }
  };
  std::vector<Symbols> numbers(sequences.begin(), sequences.end());  // of the grams that start at each position
  std::vector<std::vector<uint32_t>> counts(sequences.size());
  std::vector<Gram> grams;
  for (int order = 1; order <= max_order; ++order) {
    grams.clear();
    const auto last = static_cast<size_t>(order) - 1;  // offset of the gram's last symbol
    for (uint32_t s = 0; s < sequences.size(); ++s)
      for (uint32_t i = 0; i + last < sequences[s].size(); ++i) {
        const uint64_t start = order == 1 ? 0 : numbers[s][i];
        grams.push_back({start << 32 | sequences[s][i + last], s, i});
      }
    std::sort(grams.begin(), grams.end());
    uint32_t distinct = 0;
    for (size_t g = 0; g < grams.size(); ++g) {
      distinct += g == 0 || grams[g - 1].key != grams[g].key;
      numbers[grams[g].sequence][grams[g].position] = distinct - 1;
    }
    for (size_t s = 0; s < sequences.size(); ++s) {
      counts[s].assign(distinct, 0);
      for (size_t i = 0; i + last < sequences[s].size(); ++i) ++counts[s][numbers[s][i]];
    }
    visit(std::as_const(counts));
  }
}

}  // namespace nmt::metrics
