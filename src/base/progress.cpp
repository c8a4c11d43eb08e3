#include "base/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace nmt {

std::string hours_minutes_seconds(double seconds) {
  const int64_t s = seconds > 0 ? std::llround(std::min(seconds, 1e15)) : 0;
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

namespace {

std::mutex terminal;
bool drawn = false;  // a bar stands there

// In place of what the line showed. A terminal may have gone away: that is no reason to end.
void draw(const std::string& text) {
  std::fputs(("\r\033[K" + text).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(bool quiet) : shown_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

std::string Progress::line(double share, double seconds, const std::string& text) {
  if (!(share >= 0)) return text;
  constexpr size_t kWidth = 30;
  const double done = std::min(share, 1.0);
  const auto full = static_cast<size_t>(done * kWidth);
  const std::string bar =
      fmt::format("[{}{}] {:3.0f}%  {}", std::string(full, '#'), std::string(kWidth - full, ' '), 100 * done, text);
  return done > 0 ? fmt::format("{}  {} left", bar, hours_minutes_seconds(seconds * (1 - done) / done)) : bar;
}

void Progress::show(double share, double seconds, const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  const std::lock_guard lock(terminal);
  drawn = true;
  draw(line(share, seconds, text));
}

std::unique_lock<std::mutex> Progress::cleared() {
  std::unique_lock lock(terminal);
  if (std::exchange(drawn, false)) draw("");
  return lock;
}

}  // namespace nmt
