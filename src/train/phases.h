#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace nmt {

// Where the time of a run goes. It is always in exactly one phase, so the phases' sum is the time since the start.
class Phases {
 public:
  enum Phase { kStart, kData, kGradients, kUpdate, kLog, kValidation, kSaving };
  static constexpr std::array kNames = {"start", "data", "forward+backward", "update", "log", "validation", "saving"};

  void enter(Phase phase) {
    const auto now = std::chrono::steady_clock::now();
    times_[current_] += now - since_;
    since_ = now;
    current_ = phase;
  }

  // As of the last enter().
  double seconds(size_t phase) const { return std::chrono::duration<double>(times_[phase]).count(); }

 private:
  std::array<std::chrono::steady_clock::duration, kNames.size()> times_{};
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Phase current_ = kStart;
};

}  // namespace nmt
