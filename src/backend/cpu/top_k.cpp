#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"
#include "tensor/ranked.h"

#define HWY_TARGET_INCLUDE "backend/cpu/top_k.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// The k largest elements are among those that reach the k-th largest of the groups' largest elements, where a group is
// elements i, i + G, i + 2G ...; hardly more reach it where there are several times k groups.
float threshold_of(const float* logits, int64_t width, int k, float& largest_of_all) {
  const DF d;
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kUnit = 64;  // several vectors
  const int64_t groups = kUnit * (4 * k / kUnit + 1);
  thread_local std::vector<float> largest;
  largest.assign(static_cast<size_t>(groups), -kInfinity);
  int64_t i = 0;
  for (; i + groups <= width; i += groups)
    for (int64_t g = 0; g < groups; g += N) {
      float* to = largest.data() + g;
      hn::StoreU(hn::Max(hn::LoadU(d, to), hn::LoadU(d, logits + i + g)), d, to);
    }
  for (int64_t g = 0; i < width; ++i, ++g)
    largest[static_cast<size_t>(g)] = std::max(largest[static_cast<size_t>(g)], logits[i]);
  largest_of_all = max(d, largest.data(), groups);
  float threshold = largest_of_all;
  for (int rank = 1; rank < k && threshold != -kInfinity; ++rank) {  // the largest of those below
    auto next = hn::Set(d, -kInfinity);
    for (int64_t g = 0; g < groups; g += N) {
      const auto v = hn::LoadU(d, largest.data() + g);
      next = hn::IfThenElse(hn::Lt(v, hn::Set(d, threshold)), hn::Max(next, v), next);
    }
    threshold = max_of_lanes(d, next);
  }
  return threshold;
}

int64_t keep_logits(int64_t width, const uint8_t* mask, const float* logits, float* kept) {
  const DF d;
  int64_t count = 0;
  for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
    const auto wanted = hn::And(hn::LoadMaskBits(d, mask + i / 8), hn::FirstN(d, n));
    count += static_cast<int64_t>(hn::CompressBlendedStore(load(d, logits + i, n), wanted, d, kept + count));
  });
  return count;
}

void find_best(const float* logits, int64_t width, int32_t first, int k, BestLogits& best, float* values,
               int32_t* indices) {
  const DF d;
  const auto N = static_cast<int64_t>(hn::Lanes(d));
  // One that is as large as the last of k loses the tie.
  const bool full = best.found == k;
  float largest = full ? max(d, logits, width) : -kInfinity;
  const float threshold = full ? std::nextafter(values[k - 1], kInfinity) : threshold_of(logits, width, k, largest);
  const float before = std::exchange(best.shift, std::max(best.shift, largest));
  const float shift = best.shift == -kInfinity ? 0 : best.shift;

  thread_local std::vector<uint64_t> found;
  found.clear();
  const auto at_least = hn::Set(d, threshold), shifts = hn::Set(d, shift);
  const auto exp_of = [&](auto v) HWY_ATTR { return exp(d, hn::Sub(v, shifts)); };
  const auto look = [&](auto v, int64_t at) HWY_ATTR {
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, hn::Ge(v, at_least), bytes);
    uint64_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    for (; bits != 0; bits &= bits - 1)
      if (const int64_t j = at + std::countr_zero(bits); j < width) found.push_back(key_of(logits[j], first + j));
  };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * N <= width; i += 4 * N) {
    const auto a = hn::LoadU(d, logits + i), b = hn::LoadU(d, logits + i + N);
    const auto c = hn::LoadU(d, logits + i + 2 * N), e = hn::LoadU(d, logits + i + 3 * N);
    s0 = hn::Add(s0, exp_of(a));
    s1 = hn::Add(s1, exp_of(b));
    s2 = hn::Add(s2, exp_of(c));
    s3 = hn::Add(s3, exp_of(e));
    if (hn::AllFalse(d, hn::Ge(hn::Max(hn::Max(a, b), hn::Max(c, e)), at_least))) continue;
    look(a, i);
    look(b, i + N);
    look(c, i + 2 * N);
    look(e, i + 3 * N);
  }
  for (; i < width; i += N) {
    const auto v = load_or(d, -kInfinity, logits + i, static_cast<size_t>(std::min(N, width - i)));
    s0 = hn::Add(s0, exp_of(v));
    look(v, i);
  }
  const float sum = sum_of_lanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  best.sum = sum + (best.sum == 0 ? 0 : best.sum * std::exp(before - shift));
  if (found.empty()) return;

  const auto at_most_k = [&] { return std::min(std::ssize(found), static_cast<std::ptrdiff_t>(k)); };
  const std::ptrdiff_t fresh = at_most_k();
  std::partial_sort(found.begin(), found.begin() + fresh, found.end(), std::greater<>());
  found.resize(static_cast<size_t>(fresh));
  for (int j = 0; j < best.found; ++j) found.push_back(key_of(values[j], indices[j]));  // in order, as they are
  std::inplace_merge(found.begin(), found.begin() + fresh, found.end(), std::greater<>());
  best.found = static_cast<int>(at_most_k());
  for (int j = 0; j < best.found; ++j) {
    values[j] = value_of(found[static_cast<size_t>(j)]);
    indices[j] = index_of(found[static_cast<size_t>(j)]);
  }
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(find_best);
HWY_EXPORT(keep_logits);

int64_t keep_logits(int64_t width, const uint8_t* mask, const float* logits, float* kept) {
  return HWY_DYNAMIC_DISPATCH(keep_logits)(width, mask, logits, kept);
}

void find_best(const float* logits, int64_t width, int32_t first, int k, BestLogits& best, float* values,
               int32_t* indices) {
  check(k >= 1, "the best {} logits were asked for", k);
  HWY_DYNAMIC_DISPATCH(find_best)(logits, width, first, k, best, values, indices);
}

void merge_best(int parts, const BestLogits* part, int k, int64_t stride, const float* values, const int32_t* indices,
                float* log_probabilities, int32_t* best) {
  float shift = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int p = 0; p < parts; ++p) shift = std::max(shift, part[p].shift);
  for (int p = 0; p < parts; ++p) sum += part[p].sum == 0 ? 0 : part[p].sum * std::exp(part[p].shift - shift);
  const auto fill_from = [&](int i, float log_probability) {
    std::fill(log_probabilities + i, log_probabilities + k, log_probability);
    std::fill(best + i, best + k, 0);
  };
  if (std::isnan(sum)) return fill_from(0, sum);
  const float log_sum = sum == 0 ? 0 : std::log(sum);
  if (shift < std::numeric_limits<float>::lowest()) shift = 0;
  thread_local std::vector<int> next;  // by part
  next.assign(static_cast<size_t>(parts), 0);
  const auto left = [&](int p) { return next[static_cast<size_t>(p)] < part[p].found; };
  const auto at = [&](int p) { return p * stride + next[static_cast<size_t>(p)]; };
  for (int i = 0; i < k; ++i) {
    int from = 0;  // the first part of those with the largest value: it has the lower indices
    for (int p = 1; p < parts; ++p)
      if (left(p) && (!left(from) || values[at(p)] > values[at(from)])) from = p;
    if (!left(from)) return fill_from(i, -std::numeric_limits<float>::infinity());
    log_probabilities[i] = (values[at(from)] - shift) - log_sum;
    best[i] = indices[at(from)];
    ++next[static_cast<size_t>(from)];
  }
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
