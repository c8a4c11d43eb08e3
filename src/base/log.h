#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

// One line each to stderr, `[2025-01-21 16:30:34] text` (warnings and errors name their kind); a log file on request.
namespace nmt::log {

enum class Level { kInfo, kWarning, kError };

void write(Level level, std::string_view text);
void set_quiet(bool quiet);                  // only warnings and errors
void copy_to_file(const std::string& path);  // appends every line to this file too

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nmt::log
