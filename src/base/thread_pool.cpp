#include "base/thread_pool.h"

#include <algorithm>
#include <limits>

#include <immintrin.h>

#include "base/math.h"

namespace nmt {
namespace {

// Between two operations of a graph lie a few microseconds: waiting actively that long saves a system call.
constexpr int kSpins = 4000;

}  // namespace

ThreadPool::ThreadPool(int threads) : parts_(static_cast<size_t>(std::max(threads, 1))) {
  for (size_t i = 1; i < parts_.size(); ++i) workers_.emplace_back([this, i](std::stop_token stop) { loop(i, stop); });
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
  grain_ = grain;
  failed_.store(std::numeric_limits<int64_t>::max(), std::memory_order_relaxed);
  error_ = nullptr;
  const auto threads = static_cast<int64_t>(parts_.size());
  const int64_t chunks = divide_up(n, grain);
  for (int64_t i = 0; i < threads; ++i) {
    Part& part = parts_[static_cast<size_t>(i)];
    part.next.store(divide_up(chunks * i, threads) * grain, std::memory_order_relaxed);
    part.end = std::min(divide_up(chunks * (i + 1), threads) * grain, n);
  }
  open_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  work(0);
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

// Its own part, then what is left of the others'.
void ThreadPool::work(size_t thread) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[(thread + i) % parts_.size()];
    for (;;) {
      const int64_t begin = part.next.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= part.end || begin > failed_.load(std::memory_order_relaxed)) break;
      try {
        call_(body_, begin, std::min(begin + grain_, part.end));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (begin > failed_.load(std::memory_order_relaxed)) break;
        failed_.store(begin, std::memory_order_relaxed);
        error_ = std::current_exception();
      }
    }
  }
}

void ThreadPool::loop(size_t thread, std::stop_token stop) {
  uint64_t seen = 0;
  while (!stop.stop_requested()) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) _mm_pause();
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [&] { return generation_.load(std::memory_order_relaxed) != seen; })) return;
    }
    seen = generation_.load(std::memory_order_acquire);
    const auto begin = Clock::now();
    work(thread);
    worked_.fetch_add((Clock::now() - begin).count(), std::memory_order_relaxed);
    open_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace nmt
