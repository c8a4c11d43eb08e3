#include "base/log.h"

#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/error.h"
#include "base/files.h"
#include "base/progress.h"
#include "base/utf8.h"

namespace nmt::log {
namespace {

constexpr char kPattern[] = "[%Y-%m-%d %H:%M:%S] %v";

// Never destroyed: a thread that still reads when the program ends may have something to say.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto* made = new spdlog::logger("nmt", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(kPattern);
    made->flush_on(spdlog::level::info);
    made->set_error_handler([](const std::string&) { throw; });  // what write() says
    return made;
  }();
  return *instance;
}

}  // namespace

void write(Level level, std::string_view message) try {
  const std::string text = printable(message, kLongest);
  const auto lock = Progress::cleared();
  if (level == Level::kInfo)
    logger().info("{}", text);
  else
    logger().warn("warning: {}", text);
} catch (const spdlog::spdlog_ex& error) {
  fail("cannot write the log: {}", error.what());
}

void set_quiet(bool quiet) { logger().sinks().front()->set_level(quiet ? spdlog::level::warn : spdlog::level::info); }

void copy_to_file(const std::string& path) try {
  const auto folder = std::filesystem::path(path).parent_path();  // the sink would make it
  std::error_code failed;
  require(folder.empty() || std::filesystem::exists(folder, failed), "cannot write the log file {}: no such folder",
          path);
  end_last_line(path);
  auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
  sink->set_pattern(kPattern);
  logger().sinks().push_back(std::move(sink));
} catch (const spdlog::spdlog_ex& error) {
  user_error("cannot write the log file {}: {}", path, error.what());
}

void error_to_file(std::string_view message) noexcept try {
  const std::string text = "error: " + printable(message, kLongest);
  for (const auto& sink : std::span(logger().sinks()).subspan(1)) {
    sink->log({logger().name(), spdlog::level::err, text});
    sink->flush();
  }
} catch (const std::exception&) {  // the program's exit code tells that it failed
}

}  // namespace nmt::log
