#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/on_device.h"

// What an optimizer's update is decided by, in the words that every backend shares. A device decides by itself: the
// host need not wait for the gradient's norm.
namespace nmt {

// A step of Adam (Kingma and Ba 2015, algorithm 1): the gradient g is scaled by grad_scale first; correction1 = 1 -
// beta1^t, correction2 = 1 - beta2^t; g is set to zero for the next accumulation. Exponential smoothing, where there is
// an average: average += smoothing * (p - average). It is more in the first updates, t of them: max(smoothing,
// 9 / (t + 10)), as Marian's, so that the average forgets what training began with.
struct Adam {
  float rate, beta1, beta2, eps, correction1, correction2, grad_scale, smoothing;
};

// What is known of an update before its gradient is.
struct UpdateRule {
  double rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, smoothing = 0;
  double clip_norm = 0;    // a longer gradient is shortened to it; 0: none is
  double loss_scale = 1;   // of the loss and so of the gradient, which would vanish in f16 otherwise
  double skip_factor = 0;  // a gradient that is so many times longer than their running mean is skipped; 0: none is
};

// Over all the update's batches (and all devices).
struct UpdateTotals {
  double squares = 0;  // of the gradient's elements
  double loss = 0;
};

// A longer gradient's squares are beyond float32, which Adam's variance holds.
inline constexpr double kLongestGradient = 1e18;

// The update that was decided on last, and what the next one goes by.
struct Update {
  double loss = 0, norm = 0;  // norm: the gradient's, before it is shortened
  bool made = false;          // false: skipped, the gradient is thrown away
  Adam adam{};
  double mean_norm = 0;  // running mean of the norms of updates that were made; 0: there was none yet
  int64_t count = 0;     // updates that were made

  // Whether loss and norm are numbers to go by; else the model has broken down, or float16 has.
  NMT_ON_DEVICE_TOO bool sound() const { return std::isfinite(loss) && norm < kLongestGradient; }
};

// The next update. Skipped is what is not sound, and what the rule says.
NMT_ON_DEVICE_TOO inline Update decide(const UpdateRule& rule, const UpdateTotals& totals, const Update& last) {
  constexpr double kNormMemory = 0.99;
  Update u = last;
  u.loss = totals.loss / rule.loss_scale;
  u.norm = std::sqrt(totals.squares) / rule.loss_scale;
  const bool exploded = rule.skip_factor > 0 && last.mean_norm > 0 && u.norm > rule.skip_factor * last.mean_norm;
  u.made = u.sound() && !exploded;
  if (!u.made) return u;
  u.mean_norm = last.mean_norm == 0 ? u.norm : kNormMemory * last.mean_norm + (1 - kNormMemory) * u.norm;
  const auto t = static_cast<double>(++u.count);
  const bool clip = rule.clip_norm > 0 && u.norm > rule.clip_norm;
  u.adam = {static_cast<float>(rule.rate),
            static_cast<float>(rule.beta1),
            static_cast<float>(rule.beta2),
            static_cast<float>(rule.epsilon),
            static_cast<float>(1 - std::pow(rule.beta1, t)),
            static_cast<float>(1 - std::pow(rule.beta2, t)),
            static_cast<float>((clip ? rule.clip_norm / u.norm : 1) / rule.loss_scale),
            static_cast<float>(std::fmax(rule.smoothing, 9 / (t + 10)))};
  return u;
}

}  // namespace nmt
