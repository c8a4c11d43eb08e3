#include <mutex>

#include "backend/cuda/communicator.h"
#include "base/error.h"

#if __has_include(<nccl.h>)
#include <fmt/format.h>
#include <nccl.h>

#include "backend/cuda/device/library.h"

namespace nmt::cuda {
namespace {

struct Nccl {
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclCommInitAll) init_all;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclAllReduce) all_reduce;

  static const Nccl& get() {
    static const Nccl nccl = load();
    return nccl;
  }

 private:
  static Nccl load() {
    const Library library(fmt::format("libnccl.so.{}", NCCL_MAJOR), "several devices need NCCL");
    Nccl n{};
    library.find("ncclGetErrorString", n.error_string);
    library.find("ncclCommInitAll", n.init_all);
    library.find("ncclCommDestroy", n.destroy);
    library.find("ncclCommAbort", n.abort);
    library.find("ncclReduceScatter", n.reduce_scatter);
    library.find("ncclAllGather", n.all_gather);
    library.find("ncclAllReduce", n.all_reduce);
    return n;
  }
};

void check_nccl(ncclResult_t result, const char* doing) {
  if (result != ncclSuccess) fail("NCCL: {}: {}", doing, Nccl::get().error_string(result));
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Device& device, size_t rank, ncclComm_t connection)
      : device_(device), rank_(static_cast<int64_t>(rank)), connection_(connection) {}
  ~NcclCommunicator() override {
    if (connection_ != nullptr) Nccl::get().destroy(connection_);
  }

  void reduce_scatter(float* data, int64_t count) override {
    check_nccl(Nccl::get().reduce_scatter(data, data + rank_ * count, static_cast<size_t>(count), ncclFloat32, ncclSum,
                                          connection(), device_.stream()),
               "adding up gradients");
  }
  void all_gather(float* data, int64_t count) override {
    check_nccl(Nccl::get().all_gather(data + rank_ * count, data, static_cast<size_t>(count), ncclFloat32, connection(),
                                      device_.stream()),
               "exchanging parameters");
  }
  void all_reduce(double* data, int64_t count) override {
    check_nccl(Nccl::get().all_reduce(data, data, static_cast<size_t>(count), ncclFloat64, ncclSum, connection(),
                                      device_.stream()),
               "adding up norms");
  }

  void abort() override {
    const std::lock_guard lock(mutex_);
    if (connection_ != nullptr) Nccl::get().abort(connection_);
    connection_ = nullptr;
  }

 private:
  ncclComm_t connection() {
    const std::lock_guard lock(mutex_);
    if (connection_ == nullptr) fail("NCCL: another device has failed");
    return connection_;
  }

  Device& device_;
  int64_t rank_;
  std::mutex mutex_;
  ncclComm_t connection_;  // null: aborted
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> Communicator::connect(std::span<Device* const> devices) {
  std::vector<int> indices;
  for (const Device* device : devices) indices.push_back(device->index());
  std::vector<ncclComm_t> connections(devices.size());
  check_nccl(Nccl::get().init_all(connections.data(), static_cast<int>(indices.size()), indices.data()),
             "connecting the devices");
  std::vector<std::unique_ptr<Communicator>> all;
  for (size_t i = 0; i < devices.size(); ++i)
    all.push_back(std::make_unique<NcclCommunicator>(*devices[i], i, connections[i]));
  return all;
}

}  // namespace nmt::cuda

#else  // without NCCL's header

namespace nmt::cuda {

std::vector<std::unique_ptr<Communicator>> Communicator::connect(std::span<Device* const>) {
  fail("several devices need NCCL, and this nmt was built without it");
}

}  // namespace nmt::cuda

#endif
