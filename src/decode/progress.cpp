#include "decode/progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace nmt {

Progress::Progress(int64_t total, std::string unit) : total_(total), unit_(std::move(unit)) {}

bool Progress::shown() { return ::isatty(STDERR_FILENO) == 1; }

std::string Progress::line(int64_t done, int64_t total, double seconds, const std::string& unit) {
  constexpr int64_t kWidth = 30;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (total == 0) return fmt::format("{} {}, {:.1f} {}/s", done, unit, rate, unit);
  const auto full = static_cast<size_t>(std::min(kWidth, kWidth * done / total));
  const auto left = rate > 0 ? static_cast<int64_t>(static_cast<double>(total - done) / rate) : 0;
  return fmt::format("[{}{}] {}/{} {}, {:.1f} {}/s, {}:{:02}:{:02} left", std::string(full, '#'),
                     std::string(kWidth - full, ' '), done, total, unit, rate, unit, left / 3600, left / 60 % 60,
                     left % 60);
}

void Progress::advance(int64_t done) {
  const auto now = Clock::now();
  if (!shown() || now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  drawn_ = true;
  fmt::print(stderr, "\r\033[K{}", line(done, total_, std::chrono::duration<double>(now - start_).count(), unit_));
  std::fflush(stderr);
}

void Progress::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace nmt
