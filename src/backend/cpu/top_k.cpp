#include <bit>
#include <functional>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/top_k.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// The best k of what it was offered, as integers that sort like (value, lower index first). Offers are collected and
// now and then cut down to the best k; the least of them is then the threshold that a later offer must exceed (a later
// one of the same value loses the tie).
class Best {
 public:
  explicit Best(int k) : k_(k), limit_(2 * k + 32) { keys_.reserve(limit_); }

  void offer(float value, int64_t index) {
    keys_.push_back(key(value) << 32 | (UINT32_MAX - static_cast<uint64_t>(index)));
    if (keys_.size() == limit_) cut();
  }

  // Keeps the best k, in no order.
  void cut() {
    std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.end(), std::greater<>());
    keys_.resize(k_);
    threshold_ = value(keys_.back());
  }

  const std::vector<uint64_t>& sorted() {
    cut();
    std::sort(keys_.begin(), keys_.end(), std::greater<>());
    return keys_;
  }

  float threshold() const { return threshold_; }

  static float value(uint64_t key) {
    const auto order = static_cast<uint32_t>(key >> 32);
    return std::bit_cast<float>(order >> 31 ? order ^ 0x80000000u : ~order);
  }
  static int32_t index(uint64_t key) { return static_cast<int32_t>(UINT32_MAX - static_cast<uint32_t>(key)); }

 private:
  static uint64_t key(float value) {
    const auto bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 and 0 are equal
    return bits >> 31 ? ~bits : bits ^ 0x80000000u;
  }

  size_t k_, limit_;
  std::vector<uint64_t> keys_;
  float threshold_ = -kInfinity;
};

void top_k_log_softmax(const float* logits, int64_t width, int k, float* values, int32_t* indices, float* logsum) {
  check(k >= 0 && k <= width, "the best {} of {} logits were asked for", k, width);
  const DF d;
  const Normaliser norm = normaliser(d, logits, width);
  const float log_sum = norm.sum == 0 ? 0 : std::log(norm.sum);
  if (logsum != nullptr) *logsum = norm.sum == 0 ? -kInfinity : norm.shift + log_sum;
  if (k == 0) return;

  Best best(k);
  for (int64_t i = 0; i < k; ++i) best.offer(logits[i], i);
  best.cut();

  // Four vectors are looked at together; past the first few thousand logits almost none exceeds the threshold.
  constexpr int64_t kVectors = 4;
  const auto N = static_cast<int64_t>(hn::Lanes(d)), step = kVectors * N;
  int64_t i = k;
  for (; i + step <= width; i += step) {
    const auto threshold = hn::Set(d, best.threshold());
    const auto larger = hn::Max(hn::Max(hn::LoadU(d, logits + i), hn::LoadU(d, logits + i + N)),
                                hn::Max(hn::LoadU(d, logits + i + 2 * N), hn::LoadU(d, logits + i + 3 * N)));
    if (hn::AllFalse(d, hn::Gt(larger, threshold))) continue;
    for (int64_t j = i; j < i + step; ++j) {
      if (logits[j] > best.threshold()) best.offer(logits[j], j);
    }
  }
  for (; i < width; ++i) {
    if (logits[i] > best.threshold()) best.offer(logits[i], i);
  }

  for (const uint64_t key : best.sorted()) {
    *values++ = (Best::value(key) - norm.shift) - log_sum;
    *indices++ = Best::index(key);
  }
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(top_k_log_softmax);

void top_k_log_softmax(const float* logits, int64_t width, int k, float* values, int32_t* indices, float* logsum) {
  HWY_DYNAMIC_DISPATCH(top_k_log_softmax)(logits, width, k, values, indices, logsum);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
