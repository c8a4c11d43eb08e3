#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nmt {

// A bar on standard error with rate and time left, redrawn a few times a second; where standard error is no terminal,
// nothing.
class Progress {
 public:
  // total 0: unknown, a count takes the place of the bar.
  Progress(int64_t total, std::string unit);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  static bool shown();  // standard error is a terminal
  void advance(int64_t done);
  void clear();

  static std::string line(int64_t done, int64_t total, double seconds, const std::string& unit);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t total_;
  std::string unit_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace nmt
