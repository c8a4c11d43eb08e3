#pragma once

#include <chrono>
#include <string>

namespace nmt {

// "h:mm:ss", rounded to seconds; negative numbers and NaN give 0:00:00, more than 10^15 seconds are cut to them.
std::string hours_minutes_seconds(double seconds);

// A bar on standard error, drawn anew a few times a second at most; nothing where standard error is no terminal.
class Progress {
 public:
  explicit Progress(bool quiet = false);  // quiet: nothing at all
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }  // whether there is a bar to draw

  // share: of the work, done after `seconds`, in [0, 1]; negative: unknown, `text` stands alone.
  void show(double share, double seconds, const std::string& text);
  void clear();  // before a line of text takes the bar's place

  // "[####      ]  40%  text  0:00:12 left"
  static std::string line(double share, double seconds, const std::string& text);

 private:
  bool shown_, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace nmt
