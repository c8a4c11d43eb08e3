#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"

#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {

// Three passes over a row of logits, which L2 holds: maximum, sums, gradient. Logits enter relative to the maximum, so
// that a common offset costs no bits.
void cross_entropy(DType t, Rows rows, int64_t width, float* logits, const int32_t* labels, float smoothing,
                   float weight, float* loss, float* nll, void* dlogits) {
  with_type(t, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const DF d;
    const float spread = smoothing / static_cast<float>(width);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      float* x = logits + r * width;
      T* dx = dlogits == nullptr ? nullptr : static_cast<T*>(dlogits) + r * width;
      const int64_t label = labels[r];
      if (label < 0) {
        loss[r] = 0;
        if (nll != nullptr) nll[r] = 0;
        if (dx != nullptr) std::memset(dx, 0, static_cast<size_t>(width) * sizeof(T));
        continue;
      }
      check(label < width, "label {} of row {} is not below the vocabulary's size {}", label, r, width);

      const float largest = max(d, x, width);
      const float label_logit = x[label] - largest;
      const auto shift = hn::Set(d, largest);
      const auto sums = fold(
          d, width, VectorPair{hn::Zero(d), hn::Zero(d)},
          [&](int64_t i, size_t n) HWY_ATTR {
            const auto shifted = hn::Sub(load_or(d, largest, x + i, n), shift);
            const auto e = exp(d, hn::Sub(load_or(d, -kInfinity, x + i, n), shift));
            if (dx != nullptr) store(d, e, x + i, n);  // wanted again below
            return VectorPair{e, shifted};
          },
          add_pairs);
      const float sum_of_exp = sum_of_lanes(d, sums.first);
      const float log_sum = std::log(sum_of_exp);
      const float label_loss = log_sum - label_logit;
      const float mean_loss = log_sum - sum_of_lanes(d, sums.second) / static_cast<float>(width);
      loss[r] = smoothing == 0 ? label_loss : (1 - smoothing) * label_loss + smoothing * mean_loss;
      if (nll != nullptr) nll[r] = label_loss;
      if (dx == nullptr) continue;

      const auto factor = hn::Set(d, weight / sum_of_exp);
      const auto less = hn::Set(d, weight * spread);
      for_each(d, width, [&](int64_t i, size_t n) HWY_ATTR {
        store_ahead(d, hn::MulSub(load(d, x + i, n), factor, less), dx + i, n);
      });
      const auto less_at_label = hn::Set(d, weight * (spread + (1 - smoothing)));
      store(d, hn::MulSub(exp(d, hn::Set(d, label_logit)), factor, less_at_label), dx + label, 1);
    }
  });
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nmt::cpu {

HWY_EXPORT(cross_entropy);

void cross_entropy(DType t, Rows rows, int64_t width, float* logits, const int32_t* labels, float smoothing,
                   float weight, float* loss, float* nll, void* dlogits) {
  HWY_DYNAMIC_DISPATCH(cross_entropy)(t, rows, width, logits, labels, smoothing, weight, loss, nll, dlogits);
}

}  // namespace nmt::cpu
#endif  // HWY_ONCE
