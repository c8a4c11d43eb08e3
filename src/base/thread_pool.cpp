#include "base/thread_pool.h"

#include <algorithm>

#include <immintrin.h>

namespace nmt {
namespace {

// Between two operations of a graph lie a few microseconds: waiting actively that long saves a system call.
constexpr int kSpins = 4000;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this](std::stop_token stop) { loop(stop); });
}

ThreadPool::~ThreadPool() {
  for (auto& worker : workers_) worker.request_stop();
  wake_.notify_all();
}

double ThreadPool::waiting() const {
  const auto workers = static_cast<Clock::duration::rep>(workers_.size());
  const Clock::duration idle = (Clock::now() - start_) * workers - Clock::duration(worked_.load());
  return std::chrono::duration<double>(idle + caller_waited_).count();
}

void ThreadPool::run(int64_t n, int64_t grain, Call call, void* body) {
  if (n <= 0) return;
  if (workers_.empty() || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) call(body, begin, std::min(begin + grain, n));
    return;
  }
  call_ = call;
  body_ = body;
  n_ = n;
  grain_ = grain;
  error_ = nullptr;
  next_.store(0, std::memory_order_relaxed);
  open_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  work();
  const auto begin = Clock::now();
  for (int spin = 0; open_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins)
      _mm_pause();
    else
      std::this_thread::yield();
  }
  caller_waited_ += Clock::now() - begin;
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::work() {
  for (;;) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= n_) return;
    try {
      call_(body_, begin, std::min(begin + grain_, n_));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(n_, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::loop(std::stop_token stop) {
  uint64_t seen = 0;
  while (!stop.stop_requested()) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) _mm_pause();
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return generation_.load(std::memory_order_relaxed) != seen; })) return;
    }
    seen = generation_.load(std::memory_order_acquire);
    const auto begin = Clock::now();
    work();
    worked_.fetch_add((Clock::now() - begin).count(), std::memory_order_relaxed);
    open_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace nmt
