#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace nmt {

// A thread that does one thing after another, in the order in which they are begun. After one that throws nothing more
// is done. The destructor waits for what was begun.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Throws what an earlier one has thrown.
  void begin(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
      begun_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  // Till what was begun is done; throws what one of it has thrown.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.empty(); });
    if (failure_) std::rethrow_exception(failure_);
  }
  bool failed() const {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !begun_.empty() || ends_; });
      if (begun_.empty()) return;
      const auto& work = begun_.front();  // stays where it is while others are begun
      lock.unlock();
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      begun_.pop_front();
      if (failure) {
        failure_ = failure;
        begun_.clear();
      }
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> begun_;  // the first is under way
  std::exception_ptr failure_;
  bool ends_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace nmt
