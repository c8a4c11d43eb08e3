#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"

namespace nmt {

// A thread that does one thing after another.
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

  void begin(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      check(!work_, "a worker is given work before it was waited for");
      work_ = std::move(work);
    }
    changed_.notify_all();
  }
  // Till what was begun is done; throws what it threw.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !work_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return work_ || ends_; });
      if (!work_) return;
      lock.unlock();
      std::exception_ptr failure;
      try {
        work_();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // under way
  std::exception_ptr failure_;
  bool ends_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace nmt
