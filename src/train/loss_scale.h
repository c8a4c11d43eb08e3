#pragma once

#include <cstdint>

namespace nmt {

// Dynamic loss scaling for --precision f16 (Micikevicius et al. 2018, section 3.2): the loss is multiplied by as much
// as leaves no gradient beyond float16.
struct LossScale {
  double value = 1;
  int64_t updates = -1;  // since the value changed; -1: nothing is scaled

  // Before a training begins or goes on, maybe in another precision than before.
  void start(bool scales) {
    if (!scales)
      *this = {};
    else if (updates < 0)
      *this = {.value = 65536, .updates = 0};
  }

  // After an update. True where it overflowed and the next one is given a smaller value.
  bool adapt(bool overflowed) {
    constexpr int64_t kPatience = 2000;
    if (updates < 0 || (overflowed && value <= 1)) return false;
    if (!overflowed && ++updates < kPatience) return false;
    value *= overflowed ? 0.5 : 2;
    updates = 0;
    return overflowed;
  }

  bool operator==(const LossScale&) const = default;
};

}  // namespace nmt
