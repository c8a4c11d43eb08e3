#include "backend/cuda/emulation/run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <climits>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/emulation/allocations.h"
#include "backend/cuda/emulation/environment.h"
#include "backend/cuda/emulation/fiber.h"
#include "backend/cuda/emulation/guarded_memory.h"
#include "base/error.h"

namespace nmt::cuda::emulation {

constinit thread_local const Place* place = nullptr;

namespace {

constexpr int kLanes = 32, kMaxWarps = 32, kMaxThreads = kLanes * kMaxWarps;
constexpr dim3 kMaxBlocks(0x7fffffff, 65535, 65535);
constexpr size_t kMaxShared = 99 << 10;  // of compute capability 8.6, 8.9 and 12.0: others have more
constexpr size_t kCopy = 16;             // bytes

std::atomic<uint64_t>& thread_order() {
  static std::atomic<uint64_t> seed = static_cast<uint64_t>(environment("NMT_EMULATED_ORDER", 0, LLONG_MAX));
  return seed;
}

std::atomic<int64_t>& launches_to_failure() {
  static std::atomic<int64_t> launches = 0;
  return launches;
}

// What unwinds the threads of a block where one has failed.
struct Abandoned {};

// What a lane does together with others of its warp.
struct Meeting {
  const char* operation;
  unsigned mask;
  void* values;
  Collect collect;
};

bool same(const Meeting& a, const Meeting& b) {
  return a.mask == b.mask && (a.operation == b.operation || std::strcmp(a.operation, b.operation) == 0);
}

struct Warp {
  unsigned alive = 0;    // lanes that have not returned
  unsigned ready = 0;    // of these: that can run
  unsigned meeting = 0;  // that wait for other lanes; what is left waits at the barrier
};

// A copy of a thread that has begun; nobody may count on its being done before the thread has waited for it.
struct Copy {
  void* to;
  std::array<std::byte, kCopy> value;
  int group;
};

class Engine {
 public:
  void run(const char* kernel, dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body);
  void sync_block();
  void sync_warp(const Meeting& meeting);
  void begin_copy(void* to, const void* from);
  void end_group() { ++groups_[current_]; }
  void finish_groups(int but);
  const GuardedMemory& shared() const { return *shared_; }
  std::string here() const;

 private:
  static constexpr int kNone = -1;

  void run_blocks(dim3 blocks);
  void run_block();
  std::string block() const;

  void run_threads();
  void switch_to(int thread);
  void set_current(int thread, Fiber* fiber);

  static unsigned bit(int thread) { return 1u << thread % kLanes; }
  void make_ready(int warp, unsigned lanes);
  void make_wait();
  void make_returned();
  bool complete(const Meeting& meeting) const;
  void wait();
  int next();
  int pick(unsigned mask);
  uint64_t random();
  [[noreturn]] void fail_stuck() const;

  const char* kernel_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  std::unique_ptr<GuardedMemory> shared_;
  uint64_t order_ = 0;  // 0: as threads are counted; else the state of the random generator

  Place place_{};

  // The block. Ready: what can run, the running thread too.
  int threads_ = 0, alive_ = 0, at_barrier_ = 0;
  unsigned ready_warps_ = 0;
  std::array<Warp, kMaxWarps> warps_;
  std::array<Meeting, kMaxThreads> meetings_;
  std::array<Fiber*, kMaxThreads> fiber_of_;           // null: has not begun
  std::array<std::vector<Copy>, kMaxThreads> copies_;  // that have begun, of each thread
  std::array<int, kMaxThreads> groups_{};              // that are complete
  int current_ = kNone;
  std::exception_ptr error_;  // the first one

  Fiber main_;             // of whoever called run()
  Fiber* fiber_ = &main_;  // that runs
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
};

Engine& engine() {
  static thread_local Engine engine;
  return engine;
}

// ---- launches -------------------------------------------------------------------------------------------------------

void Engine::run(const char* kernel, dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body) {
  if (kernel_ != nullptr) fail("kernel {}: launched in the kernel {}", kernel, kernel_);
  if (launches_to_failure() > 0 && --launches_to_failure() == 0)
    fail("kernel {}: the kernel fails, as it was told to", kernel);
  if (threads < 1 || threads > kMaxThreads)
    fail("kernel {}: {} threads in a block, but there can be 1 to {}", kernel, threads, kMaxThreads);
  if (blocks.x < 1 || blocks.x > kMaxBlocks.x || blocks.y < 1 || blocks.y > kMaxBlocks.y || blocks.z < 1 ||
      blocks.z > kMaxBlocks.z)
    fail("kernel {}: {} x {} x {} blocks, but there can be 1 to {} x {} x {}", kernel, blocks.x, blocks.y, blocks.z,
         kMaxBlocks.x, kMaxBlocks.y, kMaxBlocks.z);
  if (shared_bytes > kMaxShared)
    fail("kernel {}: {} bytes of shared memory, but there can be {}", kernel, shared_bytes, kMaxShared);

  shared_ = std::make_unique<GuardedMemory>(shared_bytes);
  kernel_ = kernel;
  body_ = &body;
  threads_ = threads;
  order_ = thread_order();
  try {
    run_blocks(blocks);
    allocations().check_guards(kernel);
  } catch (...) {
    kernel_ = nullptr;
    throw;
  }
  kernel_ = nullptr;
}

void Engine::run_blocks(dim3 blocks) {
  const uint64_t layer = uint64_t{blocks.x} * blocks.y, count = layer * blocks.z;
  uint64_t block = 0, step = 1;
  if (order_ != 0 && count > 1) {
    block = random() % count;
    do {
      step = 1 + random() % (count - 1);
    } while (std::gcd(step, count) != 1);  // so that each block has its turn
  }
  place_.threads = dim3(static_cast<unsigned>(threads_));
  place_.blocks = blocks;
  place = &place_;
  for (uint64_t i = 0; i < count; ++i) {
    place_.block = {static_cast<unsigned>(block % blocks.x), static_cast<unsigned>(block % layer / blocks.x),
                    static_cast<unsigned>(block / layer)};
    run_block();
    block = (block + step) % count;
  }
}

void Engine::run_block() {
  fill_unset(shared_->data(), shared_->bytes());
  alive_ = threads_;
  at_barrier_ = 0;
  ready_warps_ = 0;
  std::fill_n(fiber_of_.begin(), threads_, nullptr);
  for (int w = 0; w * kLanes < threads_; ++w) {
    const unsigned lanes = ~0u >> (kLanes - std::min(kLanes, threads_ - w * kLanes));
    warps_[w] = {lanes, 0, 0};
    make_ready(w, lanes);
  }
  switch_to(next());
  if (error_) {
    for (int t = 0; t < threads_; ++t)
      if (fiber_of_[t] != nullptr && (warps_[t / kLanes].alive & bit(t)) != 0) switch_to(t);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (!shared_->check_guards()) fail("{}: something was written outside of its shared memory", block());
}

std::string Engine::block() const {
  return fmt::format("kernel {}, block ({}, {}, {})", kernel_, place_.block.x, place_.block.y, place_.block.z);
}

std::string Engine::here() const { return fmt::format("{}, thread {}", block(), current_); }

// ---- fibers ---------------------------------------------------------------------------------------------------------

// What a fiber does for ever: runs the current thread; then, where the next one has not begun, that one.
void Engine::run_threads() {
  for (;;) {
    int to = kNone;
    try {
      (*body_)();
      make_returned();
      to = next();
    } catch (Abandoned) {
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
    copies_[current_].clear();
    if (error_) {
      warps_[current_ / kLanes].alive &= ~bit(current_);
      to = kNone;
    }
    if (to != kNone && fiber_of_[to] == nullptr) {
      set_current(to, fiber_);
    } else {
      idle_.push_back(fiber_);
      switch_to(to);
    }
  }
}

void Engine::set_current(int thread, Fiber* fiber) {
  fiber_of_[thread] = fiber;
  current_ = thread;
  place_.thread.x = static_cast<unsigned>(thread);
}

// Leaves this fiber; returns when somebody switches to it. kNone: the block is over.
void Engine::switch_to(int thread) {
  Fiber* from = fiber_;
  if (thread == kNone) {
    fiber_ = &main_;
  } else {
    if (fiber_of_[thread] == nullptr) {
      if (idle_.empty())
        idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>([] { engine().run_threads(); })).get());
      fiber_of_[thread] = idle_.back();
      idle_.pop_back();
    }
    fiber_ = fiber_of_[thread];
    set_current(thread, fiber_);
  }
  from->switch_to(*fiber_);
}

// ---- threads --------------------------------------------------------------------------------------------------------

void Engine::make_ready(int warp, unsigned lanes) {
  warps_[warp].ready |= lanes;
  if (warps_[warp].ready != 0) ready_warps_ |= 1u << warp;
}

void Engine::make_wait() {
  const int warp = current_ / kLanes;
  warps_[warp].ready &= ~bit(current_);
  if (warps_[warp].ready == 0) ready_warps_ &= ~(1u << warp);
}

void Engine::make_returned() {
  Warp& warp = warps_[current_ / kLanes];
  make_wait();
  warp.alive &= ~bit(current_);
  --alive_;
  for (unsigned rest = warp.meeting; rest != 0; rest &= rest - 1) {
    const int other = current_ / kLanes * kLanes + std::countr_zero(rest);
    if ((meetings_[other].mask & bit(current_)) != 0)
      fail("{}: returns, but thread {} waits for it at {} with the mask {:#010x}", here(), other,
           meetings_[other].operation, meetings_[other].mask);
  }
}

// Runs others till this thread is ready again and has its turn.
void Engine::wait() {
  const int self = current_, to = next();
  if (to != self) switch_to(to);
  if (error_) throw Abandoned();
}

// Who runs now; kNone where all have returned.
int Engine::next() {
  if (ready_warps_ == 0) {
    if (alive_ == 0) return kNone;
    if (at_barrier_ != alive_) fail_stuck();
    at_barrier_ = 0;
    for (int w = 0; w * kLanes < threads_; ++w) make_ready(w, warps_[w].alive);
  }
  const int warp = pick(ready_warps_);
  return warp * kLanes + pick(warps_[warp].ready);
}

// One of the bits of the mask.
int Engine::pick(unsigned mask) {
  if (order_ != 0)
    for (uint64_t skip = random() % std::popcount(mask); skip > 0; --skip) mask &= mask - 1;
  return std::countr_zero(mask);
}

uint64_t Engine::random() {  // xorshift64*
  order_ ^= order_ >> 12;
  order_ ^= order_ << 25;
  order_ ^= order_ >> 27;
  return (order_ * 0x2545f4914f6cdd1d) >> 32;
}

void Engine::sync_block() {
  make_wait();
  ++at_barrier_;
  wait();
}

void Engine::sync_warp(const Meeting& meeting) {
  const int first = current_ / kLanes * kLanes;
  Warp& warp = warps_[current_ / kLanes];
  if ((meeting.mask & bit(current_)) == 0)
    fail("{}: is not in its own mask {:#010x} of {}", here(), meeting.mask, meeting.operation);
  if (const unsigned missing = meeting.mask & ~warp.alive; missing != 0)
    fail("{}: waits at {} with the mask {:#010x}, but thread {} has returned or was never there", here(),
         meeting.operation, meeting.mask, first + std::countr_zero(missing));
  meetings_[current_] = meeting;
  warp.meeting |= bit(current_);

  make_wait();
  if (complete(meeting)) {
    std::array<void*, kLanes> values;
    for (unsigned rest = meeting.mask; rest != 0; rest &= rest - 1)
      values[std::countr_zero(rest)] = meetings_[first + std::countr_zero(rest)].values;
    meeting.collect(meeting.mask, values.data());
    warp.meeting &= ~meeting.mask;
    make_ready(current_ / kLanes, meeting.mask);
  }
  wait();
}

// Whether all lanes of the mask wait for the same as the current one.
bool Engine::complete(const Meeting& meeting) const {
  const int first = current_ / kLanes * kLanes;
  if ((meeting.mask & ~warps_[current_ / kLanes].meeting) != 0) return false;
  for (unsigned rest = meeting.mask; rest != 0; rest &= rest - 1) {
    const int thread = first + std::countr_zero(rest);
    const Meeting& other = meetings_[thread];
    if (same(meeting, other)) continue;
    if ((other.mask & bit(current_)) == 0) return false;  // it may go on, and come here next
    fail("{}: waits at {} with the mask {:#010x}, but thread {} of it at {} with the mask {:#010x}", here(),
         meeting.operation, meeting.mask, thread, other.operation, other.mask);
  }
  return true;
}

void Engine::begin_copy(void* to, const void* from) {
  if (order_ != 0 && random() % 2 == 0) {
    std::memcpy(to, from, kCopy);
  } else {
    Copy copy{to, {}, groups_[current_]};
    std::memcpy(copy.value.data(), from, kCopy);
    copies_[current_].push_back(copy);
  }
}

void Engine::finish_groups(int but) {
  std::erase_if(copies_[current_], [&](const Copy& copy) {
    if (copy.group >= groups_[current_] - but) return false;
    std::memcpy(copy.to, copy.value.data(), kCopy);
    return true;
  });
}

void Engine::fail_stuck() const {
  std::map<std::string, std::pair<int, int>> groups;  // where they wait: how many, the first
  for (int t = 0; t < threads_; ++t) {
    const Warp& warp = warps_[t / kLanes];
    if ((warp.alive & bit(t)) == 0) continue;
    const std::string where = (warp.meeting & bit(t)) == 0
                                  ? "__syncthreads"
                                  : fmt::format("{} with the mask {:#010x}", meetings_[t].operation, meetings_[t].mask);
    ++groups.try_emplace(where, 0, t).first->second.first;
  }
  std::string text;
  for (const auto& [where, group] : groups)
    text += fmt::format("{}{} (the first is {}) at {}", text.empty() ? "" : ", ", group.first, group.second, where);
  fail("{}: its threads wait for ever: {}", block(), text);
}

}  // namespace

void run(const char* kernel, dim3 blocks, int threads, size_t shared_bytes, const std::function<void()>& body) {
  engine().run(kernel, blocks, threads, shared_bytes, body);
}

namespace {
thread_local const CUstream_st* current = nullptr;
thread_local std::vector<std::function<void()>>* recorded = nullptr;
}  // namespace

void begin(std::function<void()> work) {
  if (recorded == nullptr) return work();
  recorded->push_back(std::move(work));
}

std::vector<std::function<void()>> record(const std::function<void()>& work) {
  check_not_recording("a recording");
  std::vector<std::function<void()>> all;
  recorded = &all;
  try {
    work();
  } catch (...) {
    recorded = nullptr;
    throw;
  }
  recorded = nullptr;
  return all;
}

bool is_recording() { return recorded != nullptr; }

void check_not_recording(const char* action) {
  if (is_recording()) fail("{} cannot be recorded", action);
}

void set_current(CUstream_st* stream) { current = stream; }
void check_current(const char* kernel, const CUstream_st* stream) {
  if (stream != nullptr && stream != current) fail("kernel {}: launched on a device that is not current", kernel);
}

void check_argument(const char* kernel, const CUstream_st* stream, const void* pointer) {
  if (stream == nullptr || pointer == nullptr) return;
  const int device = allocations().device_of(pointer), own = reinterpret_cast<const Device*>(stream)->index();
  if (device < 0) fail("kernel {}: is given a pointer to what is no memory of a device", kernel);
  if (device != own) fail("kernel {}: on device {} is given a pointer to memory of device {}", kernel, own, device);
}

void check_words(const char* kernel, const CUstream_st* stream, const void* structure, size_t bytes) {
  for (size_t i = 0; i + sizeof(void*) <= bytes; i += sizeof(void*)) {
    const void* word;
    std::memcpy(&word, static_cast<const std::byte*>(structure) + i, sizeof word);
    if (allocations().device_of(word) >= 0) check_argument(kernel, stream, word);
  }
}

void fail_launch(int64_t launch) { launches_to_failure() = launch; }

void set_thread_order(uint64_t seed) { thread_order() = seed; }

void* shared_memory() { return engine().shared().data(); }
size_t shared_bytes() { return engine().shared().bytes(); }

void sync_block() { engine().sync_block(); }

void sync_warp(const char* operation, unsigned mask, void* values, Collect collect) {
  engine().sync_warp({operation, mask, values, collect});
}

void begin_copy(void* to, const void* from) { engine().begin_copy(to, from); }
void end_copy_group() { engine().end_group(); }
void finish_copy_groups(int but) { engine().finish_groups(but); }

void fail_in_thread(const char* operation, const char* what) { fail("{}: {}: {}", engine().here(), operation, what); }

}  // namespace nmt::cuda::emulation
