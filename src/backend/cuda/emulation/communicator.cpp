#include "backend/cuda/communicator.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/emulation/allocations.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/meeting.h"

namespace nmt::cuda {
namespace {

class Emulated : public Communicator {
 public:
  Emulated(Device& device, size_t rank, std::shared_ptr<Meeting> meeting)
      : Communicator(device, rank, meeting->members()), meeting_(std::move(meeting)) {}
  ~Emulated() override { abort(); }

  void all_gather(float* data, int64_t count) override {
    come("exchanging parameters", data, count, devices_, [n = meeting_->members(), count](const auto& all) {
      for (size_t part = 0; part < n; ++part)
        for (void* x : all)
          if (x != all[part])
            std::copy_n(static_cast<float*>(all[part]) + part * static_cast<size_t>(count), count,
                        static_cast<float*>(x) + part * static_cast<size_t>(count));
    });
  }

  void all_reduce(double* data, int64_t count) override {
    come("adding up norms", data, count, 1, [count](const auto& all) {
      for (int64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (void* x : all) sum += static_cast<double*>(x)[i];
        for (void* x : all) static_cast<double*>(x)[i] = sum;
      }
    });
  }

  void abort() override { meeting_->abort(); }

 private:
  void add_parts(DType t, void* data, int64_t count) override {
    with_type(t, [&](auto type) { add_parts(static_cast<decltype(type)*>(data), count); });
  }

  template <class T>
  void add_parts(T* data, int64_t count) {
    come("adding up gradients", data, count, devices_, [n = meeting_->members(), count](const auto& all) {
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

  template <class T>
  void come(const char* call, T* data, int64_t count, int64_t parts, const Meeting::Work& work) {
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
