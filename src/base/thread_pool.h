#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace nmt {

// Threads that work on one loop at a time; the caller works too, so a pool of one starts no thread. One thread calls
// it, and a loop's body does not. Chunks depend on n and grain only, and a grain on the number of threads only where
// chunks do not add anything up: results are the same on any machine.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Seconds that the threads have had nothing to do so far, all together: those of the pool between their chunks, the
  // caller while it waited for them.
  double waiting() const;

  // Calls body(begin, end) over [0, n) in chunks of `grain`; returns when all are done. Rethrows the exception of the
  // first chunk that throws one, whichever does so first; not all chunks behind it are done then.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        n, grain < 1 ? 1 : grain, [](void* b, int64_t begin, int64_t end) { (*static_cast<Plain*>(b))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* body, int64_t begin, int64_t end);

  // Chunks that a thread takes before others': the same part of every loop, so that a row that it wrote is likely to
  // be in its cache when it reads it.
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void run(int64_t n, int64_t grain, Call call, void* body);
  void work(size_t thread);
  void loop(size_t thread, std::stop_token stop);
  using Clock = std::chrono::steady_clock;

  // The current loop. `open_` counts the workers that may still touch it.
  Call call_ = nullptr;
  void* body_ = nullptr;
  int64_t grain_ = 1;
  std::vector<Part> parts_;
  std::atomic<int> open_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> failed_{0};  // where the first chunk of those that have thrown begins
  std::exception_ptr error_;        // its
  const Clock::time_point start_ = Clock::now();
  Clock::duration caller_waited_{};
  std::atomic<Clock::duration::rep> worked_{0};  // by the workers
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<std::jthread> workers_;
};

}  // namespace nmt
