#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace nmt {

// "h:mm:ss", rounded to seconds; negative numbers and NaN give 0:00:00, more than 10^15 seconds are cut to them.
std::string hours_minutes_seconds(double seconds);

// A bar on standard error, drawn anew a few times a second at most; nothing where standard error is no terminal. Lines
// of the log take its place. One at a time.
class Progress {
 public:
  explicit Progress(bool quiet = false);  // quiet: nothing at all
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }  // whether there is a bar to draw

  // share: of the work, done after `seconds`, in [0, 1]; negative: unknown, `text` stands alone.
  void show(double share, double seconds, const std::string& text);
  static void clear() { const auto lock = cleared(); }
  // Clears the bar, and keeps it away as long as the lock lives: for whoever writes a line to standard error.
  [[nodiscard]] static std::unique_lock<std::mutex> cleared();

  // "[####      ]  40%  text  0:00:12 left"
  static std::string line(double share, double seconds, const std::string& text);

 private:
  bool shown_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace nmt
