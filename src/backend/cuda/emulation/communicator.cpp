#include "backend/cuda/communicator.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "backend/cuda/emulation/allocations.h"
#include "backend/cuda/launch.cuh"
#include "base/error.h"

namespace nmt::cuda {
namespace {

// Where the devices' threads meet: the last one does the work for all.
class Meeting {
 public:
  explicit Meeting(size_t members) : data_(members), aborted_(members) {}

  size_t members() const { return data_.size(); }

  // work(data): what each member came with, by rank.
  template <class Work>
  void come(size_t rank, const char* call, int64_t count, void* data, Work work) {
    std::unique_lock lock(mutex_);
    if (here_ > 0 && (call_ != call || count_ != count)) {
      aborted_.assign(members(), true);
      all_here_.notify_all();
      fail("a device calls {} of {}, others {} of {}", call, count, call_, count_);
    }
    call_ = call;
    count_ = count;
    data_[rank] = data;
    const uint64_t meeting = meetings_;
    if (!aborted_[rank] && ++here_ == members()) {
      work(data_);
      here_ = 0;
      ++meetings_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return aborted_[rank] || meetings_ != meeting; });
    if (meetings_ == meeting) fail("{}: another device has failed", call);
  }

  void abort(size_t rank) {
    const std::lock_guard lock(mutex_);
    aborted_[rank] = true;
    all_here_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<void*> data_;
  std::string_view call_;
  int64_t count_ = 0;
  size_t here_ = 0;
  uint64_t meetings_ = 0;
  std::vector<bool> aborted_;
};

class Emulated : public Communicator {
 public:
  Emulated(Device& device, size_t rank, std::shared_ptr<Meeting> meeting)
      : Communicator(device, rank, meeting->members()), meeting_(std::move(meeting)) {}

  void all_gather(float* data, int64_t count) override {
    come("all_gather", data, count, devices_, [n = meeting_->members(), count](const auto& all) {
      for (size_t part = 0; part < n; ++part)
        for (void* x : all)
          if (x != all[part])
            std::copy_n(static_cast<float*>(all[part]) + part * static_cast<size_t>(count), count,
                        static_cast<float*>(x) + part * static_cast<size_t>(count));
    });
  }

  void all_reduce(double* data, int64_t count) override {
    come("all_reduce", data, count, 1, [count](const auto& all) {
      for (int64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (void* x : all) sum += static_cast<double*>(x)[i];
        for (void* x : all) static_cast<double*>(x)[i] = sum;
      }
    });
  }

  void abort() override { meeting_->abort(static_cast<size_t>(rank_)); }

 private:
  void add_parts(DType t, void* data, int64_t count) override {
    with_type(t, [&](auto type) { add_parts(static_cast<decltype(type)*>(data), count); });
  }

  template <class T>
  void add_parts(T* data, int64_t count) {
    come("reduce_scatter", data, count, devices_, [n = meeting_->members(), count](const auto& all) {
      for (size_t part = 0; part < n; ++part) {
        const size_t begin = part * static_cast<size_t>(count), end = begin + static_cast<size_t>(count);
        for (size_t i = begin; i < end; ++i) {
          T sum = static_cast<T*>(all[0])[i];
          for (size_t rank = 1; rank < n; ++rank)
            sum = rounded<T>(to_float(sum) + to_float(static_cast<T*>(all[rank])[i]));
          // As NCCL may: what is not one's own is no number any more.
          for (size_t rank = 0; rank < n; ++rank) static_cast<T*>(all[rank])[i] = rank == part ? sum : rounded<T>(NAN);
        }
      }
    });
  }

  template <class T, class Work>
  void come(const char* call, T* data, int64_t count, int64_t parts, Work work) {
    emulation::allocations().check(device_, call, data, static_cast<size_t>(parts * count) * sizeof(T));
    meeting_->come(static_cast<size_t>(rank_), call, count, data, work);
  }

  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> Communicator::connect(std::span<Device* const> devices) {
  auto meeting = std::make_shared<Meeting>(devices.size());
  std::vector<std::unique_ptr<Communicator>> all;
  for (size_t i = 0; i < devices.size(); ++i) all.push_back(std::make_unique<Emulated>(*devices[i], i, meeting));
  return all;
}

}  // namespace nmt::cuda
