#include "backend/cuda/meeting.h"

#include "base/error.h"

namespace nmt::cuda {

void Meeting::come(size_t rank, const char* call, int64_t count, void* data, const Work& work) {
  std::unique_lock lock(mutex_);
  if (!aborted_ && here_ > 0 && (call_ != call || count_ != count)) {
    aborted_ = true;
    all_here_.notify_all();
    fail("a device is {} ({}), others are {} ({})", call, count, call_, count_);
  }
  call_ = call;
  count_ = count;
  data_[rank] = data;
  const uint64_t meeting = meetings_;
  if (!aborted_ && ++here_ == members()) {
    if (work) work(data_);
    here_ = 0;
    ++meetings_;
    all_here_.notify_all();
  }
  all_here_.wait(lock, [&] { return aborted_ || meetings_ != meeting; });
  if (meetings_ == meeting) fail("{}: another device has failed", call);
}

void Meeting::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  all_here_.notify_all();
}

}  // namespace nmt::cuda
