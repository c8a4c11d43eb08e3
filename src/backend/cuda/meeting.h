#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

namespace nmt::cuda {

// Where the host's threads of several devices meet in each of their common calls.
class Meeting {
 public:
  explicit Meeting(size_t members) : data_(members) {}

  size_t members() const { return data_.size(); }

  using Work = std::function<void(const std::vector<void*>& data)>;  // what each member came with, by rank

  // Returns when all members are here and the last of them has done the work. Error where they have come for different
  // calls, or after abort().
  void come(size_t rank, const char* call, int64_t count, void* data = nullptr, const Work& work = {});

  // One will not come: none waits any longer, now and later.
  void abort();

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<void*> data_;
  std::string_view call_;
  int64_t count_ = 0;
  size_t here_ = 0;
  uint64_t meetings_ = 0;
  bool aborted_ = false;
};

}  // namespace nmt::cuda
