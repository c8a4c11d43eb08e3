#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "base/philox.h"

namespace nmt::testing {

// A language model of random log-probabilities, the same for the same text.
inline std::vector<float> next_tokens(const std::vector<int32_t>& text, int vocabulary, uint64_t seed) {
  uint64_t stream = seed;
  for (const int32_t id : text) stream = stream * 1000003 + static_cast<uint64_t>(id) + 1;
  Random random(seed, stream);
  std::vector<double> weights;
  double sum = 0;
  for (int i = 0; i < vocabulary; ++i) {
    weights.push_back(std::exp(4 * random.uniform()));
    sum += weights.back();
  }
  std::vector<float> result;
  for (const double w : weights) result.push_back(static_cast<float>(std::log(w / sum)));
  return result;
}

// Appends the k most probable of them, equal ones by rising id.
inline void add_best_tokens(const std::vector<float>& next, int k, std::vector<float>& values,
                            std::vector<int32_t>& ids) {
  std::vector<int32_t> order(next.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](int32_t i) { return next[static_cast<size_t>(i)]; });
  for (int i = 0; i < k; ++i) {
    ids.push_back(order[static_cast<size_t>(i)]);
    values.push_back(next[static_cast<size_t>(ids.back())]);
  }
}

}  // namespace nmt::testing
