#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

// One line each to stderr, `[2025-01-21 16:30:34] text` (a warning says so), and to a log file on request; `printable`,
// as it may hold parts of any input. Any thread may write; Error where a file cannot be.
namespace nmt::log {

enum class Level { kInfo, kWarning };

inline constexpr size_t kLongest = 4000;  // bytes of a message; of a longer one the end is left out

void write(Level level, std::string_view text);
void set_quiet(bool quiet);  // only warnings to stderr
// Appends every line to this file, too; UserError where it cannot be opened.
void copy_to_file(const std::string& path);
// An error, which the program itself says on stderr: to that file alone. Throws nothing: it may be about the file.
void error_to_file(std::string_view text) noexcept;

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nmt::log
