#include "text/line_queue.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "text/text_reader.h"

namespace nmt {
namespace {

// How long lines may take that are written in one go: short for a person, long for a pipe.
constexpr std::chrono::milliseconds kPause{10};

bool is_regular_file(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path == "-" ? "/dev/stdin" : path, failed);
}

}  // namespace

struct LineQueue::State {
  State(const std::string& path, size_t ahead)
      : reader(path, OnNul::kReplace), ahead(ahead), is_file(is_regular_file(path)) {}

  TextReader reader;
  const size_t ahead;
  const bool is_file;  // not a pipe or a terminal, whose next line may be long in coming
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  bool ended = false, abandoned = false;
  std::exception_ptr error;

  void read() {
    try {
      for (std::string line; reader.next(line);) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return lines.size() < ahead || abandoned; });
        if (abandoned) return;
        lines.push_back(std::move(line));
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

LineQueue::LineQueue(const std::string& path, size_t ahead) : state_(std::make_shared<State>(path, ahead)) {
  std::thread([state = state_] { state->read(); }).detach();
}

LineQueue::~LineQueue() {
  const std::lock_guard lock(state_->mutex);
  state_->abandoned = true;
  state_->changed.notify_all();
}

std::vector<std::string> LineQueue::take() {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return !s.lines.empty() || s.ended; });
  const auto all = [&] { return s.lines.size() >= s.ahead || s.ended; };
  if (s.is_file)  // which lines are taken together is to depend on nothing else
    s.changed.wait(lock, all);
  else
    s.changed.wait_for(lock, kPause, all);
  std::vector<std::string> taken(std::make_move_iterator(s.lines.begin()), std::make_move_iterator(s.lines.end()));
  s.lines.clear();
  if (taken.empty() && s.error) std::rethrow_exception(s.error);
  s.changed.notify_all();
  return taken;
}

}  // namespace nmt
