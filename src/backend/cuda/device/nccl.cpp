#include "backend/cuda/communicator.h"
#include "backend/cuda/unsuitable_device.h"
#include "base/error.h"

#ifdef NMT_HAVE_NCCL
#include <cstdlib>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <nccl.h>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/library.h"
#include "backend/cuda/meeting.h"

namespace nmt::cuda {
namespace {

struct Nccl {
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclCommInitAll) init_all;
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
    // From then on threads can abort connections (NVIDIA/nccl, issue 992).
    decltype(&ncclGetVersion) version = nullptr;
    library.find("ncclGetVersion", version);
    int is = 0;
    if (version(&is) != ncclSuccess || is < NCCL_VERSION(2, 19, 1))
      throw UnsuitableDevice(
          fmt::format("several devices need NCCL 2.19.1 or newer, not {}.{}.{}", is / 10000, is / 100 % 100, is % 100));
    library.find("ncclGetErrorString", n.error_string);
    library.find("ncclCommInitAll", n.init_all);
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

// Memory of a device's pool is its own, unless it is shared with those that can reach it.
void share_memory(std::span<Device* const> devices) {
  for (const Device* owner : devices) {
    const cudaMemPool_t pool = memory_pool(owner->index());
    for (const Device* reader : devices) {
      int reaches = 0;
      if (reader != owner)
        check_cuda(cudaDeviceCanAccessPeer(&reaches, reader->index(), owner->index()), reader->index(),
                   "asking who reaches whom");
      if (reaches == 0) continue;
      const cudaMemAccessDesc access{.location = {.type = cudaMemLocationTypeDevice, .id = reader->index()},
                                     .flags = cudaMemAccessFlagsProtReadWrite};
      check_cuda(cudaMemPoolSetAccess(pool, &access, 1), owner->index(), "sharing a device's memory");
    }
  }
}

// NCCL's, of all devices.
class Connections {
 public:
  explicit Connections(std::span<const int> devices) : meeting(devices.size()), all_(devices.size()) {
    std::vector<ncclComm_t> made(devices.size());
    check_nccl(Nccl::get().init_all(made.data(), static_cast<int>(devices.size()), devices.data()),
               "connecting the devices");
    for (size_t rank = 0; rank < made.size(); ++rank) {
      all_[rank].device = devices[rank];
      all_[rank].connection = made[rank];
    }
  }

  // begin(connection), or null after abort().
  template <class Begin>
  void with(size_t rank, Begin begin) {
    const std::lock_guard lock(all_[rank].mutex);
    begin(all_[rank].connection);
  }

  // All at once: NCCL may let each of them wait for the others (NVIDIA/nccl, issue 863).
  void abort() {
    meeting.abort();
    std::vector<std::jthread> threads;
    for (One& one : all_)
      threads.emplace_back([&one] {
        const std::lock_guard lock(one.mutex);
        cudaSetDevice(one.device);  // NCCL goes back to the thread's own, which would be the first there is
        if (one.connection != nullptr) Nccl::get().abort(one.connection);
        one.connection = nullptr;
      });
  }

  Meeting meeting;

 private:
  struct One {
    std::mutex mutex;
    int device = 0;
    ncclComm_t connection = nullptr;
  };
  std::vector<One> all_;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Device& device, size_t rank, std::shared_ptr<Connections> connections)
      : Communicator(device, rank, connections->meeting.members()), connections_(std::move(connections)) {}
  // Not destroyed in good order, which would wait for devices that may have failed.
  ~NcclCommunicator() override { abort(); }

  void all_gather(float* data, int64_t count) override {
    call("exchanging parameters", count, [&](ncclComm_t connection) {
      return Nccl::get().all_gather(data + rank_ * count, data, static_cast<size_t>(count), ncclFloat32, connection,
                                    device_.stream());
    });
  }
  void all_reduce(double* data, int64_t count) override {
    call("adding up norms", count, [&](ncclComm_t connection) {
      return Nccl::get().all_reduce(data, data, static_cast<size_t>(count), ncclFloat64, ncclSum, connection,
                                    device_.stream());
    });
  }

  void abort() override { connections_->abort(); }

 private:
  void add_parts(DType t, void* data, int64_t count) override {
    auto* own = static_cast<std::byte*>(data) + rank_ * count * static_cast<int64_t>(size_of(t));
    call("adding up gradients", count, [&](ncclComm_t connection) {
      return Nccl::get().reduce_scatter(data, own, static_cast<size_t>(count),
                                        t == DType::kBF16 ? ncclBfloat16 : ncclFloat32, ncclSum, connection,
                                        device_.stream());
    });
  }

  // NCCL's calls only begin. No host goes on before all devices have begun: whatever makes it wait for its own device
  // (CUDA loading a kernel, memory) would otherwise wait for others whose hosts it may be holding up.
  template <class Call>
  void call(const char* doing, int64_t count, Call call) {
    device_.make_current();
    const auto rank = static_cast<size_t>(rank_);
    connections_->with(rank, [&](ncclComm_t connection) {
      if (connection == nullptr) fail("device {}: {}: another device has failed", device_.index(), doing);
      const ncclResult_t result = call(connection);
      if (result != ncclSuccess)
        fail("NCCL: device {}: {}: {}", device_.index(), doing, Nccl::get().error_string(result));
    });
    connections_->meeting.come(rank, doing, count);
  }

  std::shared_ptr<Connections> connections_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> Communicator::connect(std::span<Device* const> devices) {
  // So that calls only begin, and no host waits in one for another.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 1);
  // Sums in the switches between GPUs differ from run to run (NVIDIA/nccl, issue 1497).
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  share_memory(devices);
  std::vector<int> indices;
  for (const Device* device : devices) indices.push_back(device->index());
  const auto connections = std::make_shared<Connections>(indices);
  std::vector<std::unique_ptr<Communicator>> all;
  for (size_t i = 0; i < devices.size(); ++i)
    all.push_back(std::make_unique<NcclCommunicator>(*devices[i], i, connections));
  return all;
}

}  // namespace nmt::cuda

#else  // without NCCL's header

namespace nmt::cuda {

std::vector<std::unique_ptr<Communicator>> Communicator::connect(std::span<Device* const>) {
  throw UnsuitableDevice("several devices need NCCL, and this nmt was built without it");
}

}  // namespace nmt::cuda

#endif
