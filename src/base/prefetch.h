#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace nmt {

// Calls `produce` in a thread of its own, up to `depth` results ahead of the consumer. One consumer thread.
// An exception of `produce` ends the thread and is rethrown by the next() that would have taken the result.
// The destructor waits for a call of `produce` under way, for nothing else.
template <class T>
class Prefetch {
 public:
  Prefetch(std::function<T()> produce, size_t depth)
      : produce_(std::move(produce)),
        depth_(depth == 0 ? 1 : depth),
        thread_([this](std::stop_token stop) { work(stop); }) {}

  T next() {
    std::unique_lock lock(mutex_);
    if (ready_.empty() && !error_) {
      const auto start = std::chrono::steady_clock::now();
      changed_.wait(lock, [this] { return !ready_.empty() || error_; });
      waited_ += std::chrono::steady_clock::now() - start;
    }
    if (ready_.empty()) std::rethrow_exception(error_);
    T item = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

  // Time that next() has spent waiting; to be asked by the consumer.
  double wait_seconds() const { return std::chrono::duration<double>(waited_).count(); }

 private:
  void work(const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        T item = produce_();
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return ready_.size() < depth_; })) return;
        ready_.push_back(std::move(item));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const std::function<T()> produce_;
  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  std::chrono::steady_clock::duration waited_{};
  std::jthread thread_;  // last: it uses what stands above
};

}  // namespace nmt
