#include "backend/cuda/device.h"

#include <bit>
#include <cstring>
#include <vector>

#include "backend/cuda/device/check.h"
#include "backend/cuda/device/code.h"
#include "backend/cuda/unsuitable_device.h"
#include "base/error.h"

namespace nmt::cuda {

void report(cudaError_t error, int device, const char* doing) {
  const auto what =
      fmt::format("CUDA: device {}: {}: {} ({})", device, doing, cudaGetErrorString(error), cudaGetErrorName(error));
  cudaGetLastError();  // or the next launch would report it again
  if (error == cudaErrorMemoryAllocation) throw OutOfMemory(what);
  throw Error(what);
}

namespace {

void use(int device) { check_cuda(cudaSetDevice(device), device, "choosing the device"); }

// Pinned memory that grows. Taking some may wait for all devices, and freeing it does, which may wait for each other:
// what was too small is kept to the end.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() {
    for (void* memory : taken_) cudaFreeHost(memory);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* at_least(size_t bytes) {
    if (bytes > bytes_) {
      const size_t room = std::bit_ceil(bytes);
      void* memory = nullptr;
      check_cuda(cudaMallocHost(&memory, room), "taking pinned memory");
      taken_.push_back(memory);
      bytes_ = room;
    }
    return taken_.empty() ? nullptr : taken_.back();
  }

 private:
  std::vector<void*> taken_;  // the last is the largest
  size_t bytes_ = 0;
};

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

// Through which the host's data goes to the device: a ring, so that what was handed over last is still there while it
// is copied.
class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  ~Staging() {
    for (Slot& slot : slots_)
      if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
  }

  void prepare(size_t bytes) {
    for (Slot& slot : slots_) slot.memory.at_least(bytes);
  }

  void upload(void* to, const void* from, size_t bytes) {
    Slot& slot = slots_[next_++ % kSlots];
    if (slot.copied == nullptr)
      slot.copied = new_event();
    else
      check_cuda(cudaEventSynchronize(slot.copied), "waiting for an earlier copy");
    void* memory = slot.memory.at_least(bytes);
    std::memcpy(memory, from, bytes);
    check_cuda(cudaMemcpyAsync(to, memory, bytes, cudaMemcpyHostToDevice, stream_), "copying to the device");
    check_cuda(cudaEventRecord(slot.copied, stream_), "recording an event");
  }

 private:
  static constexpr size_t kSlots = 8;  // a step of a search begins up to seven uploads
  struct Slot {
    PinnedMemory memory;
    cudaEvent_t copied = nullptr;
  };

  cudaStream_t stream_;
  Slot slots_[kSlots];
  size_t next_ = 0;
};

class PinnedMessage : public Message {
 public:
  PinnedMessage(int device, cudaStream_t stream, size_t room) : device_(device), stream_(stream) {
    memory_.at_least(room);
    sent_ = new_event();
  }
  ~PinnedMessage() override {
    cudaEventSynchronize(sent_);  // what nobody wanted to receive may still be under way
    cudaEventDestroy(sent_);
  }

  void send(const void* from, size_t bytes) override {
    use(device_);
    host_ = memory_.at_least(bytes);
    check_cuda(cudaMemcpyAsync(host_, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the device");
    check_cuda(cudaEventRecord(sent_, stream_), "recording an event");
  }
  const void* receive() override {
    use(device_);
    check_cuda(cudaEventSynchronize(sent_), "waiting for the device");
    return host_;
  }

 private:
  int device_;
  cudaStream_t stream_;
  PinnedMemory memory_;
  void* host_ = nullptr;
  cudaEvent_t sent_ = nullptr;
};

class RecordedGraph : public Recording {
 public:
  RecordedGraph(int device, cudaStream_t stream, cudaGraphExec_t graph)
      : device_(device), stream_(stream), graph_(graph) {}
  ~RecordedGraph() override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);  // it may still be under way
    cudaGraphExecDestroy(graph_);
  }

  void begin() override {
    use(device_);
    check_cuda(cudaGraphLaunch(graph_, stream_), "beginning a graph of kernels");
  }

 private:
  int device_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_;
};

constexpr size_t kLargestStaged = 8 << 20;  // more goes directly: pinned memory is scarce

}  // namespace

std::vector<DeviceInfo> devices(std::string* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();  // it is dealt with
    if (why != nullptr) *why = cudaGetErrorString(error);
    return {};
  }
  std::vector<DeviceInfo> all;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, i), i, "asking for a device's properties");
    all.push_back(
        {properties.name, static_cast<int64_t>(properties.totalGlobalMem), properties.major, properties.minor});
  }
  return all;
}

Device::Device(int index) : index_(index), info_(device_info(index)) {
  const cudaError_t error = cudaSetDevice(index);
  if (error == cudaErrorDevicesUnavailable || error == cudaErrorDeviceAlreadyInUse)
    user_error("device {} ({}) is in use by somebody who does not share it", index, info_.name);
  check_cuda(error, index, "choosing the device");
  const auto unsuitable = [&](const std::string& why) {
    throw UnsuitableDevice(
        fmt::format("device {} ({}, compute capability {}.{}): {}", index, info_.name, info_.major, info_.minor, why));
  };
  if (info_.major < 8) unsuitable("nmt needs compute capability 8.0 or newer");
  int has_pools = 0;
  check_cuda(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, index), "asking for memory pools");
  if (has_pools == 0) unsuitable("it takes no memory in the order of a stream (cudaMallocAsync)");
  if (!has_code())
    unsuitable(fmt::format("this nmt holds no code for it; build with -DCMAKE_CUDA_ARCHITECTURES={}{}", info_.major,
                           info_.minor));
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  // Freed memory stays with the process: it will be taken again.
  uint64_t keep = UINT64_MAX;
  check_cuda(cudaMemPoolSetAttribute(memory_pool(index), cudaMemPoolAttrReleaseThreshold, &keep),
             "setting up the memory pool");
  staging_ = new Staging(stream_);
}

Device::~Device() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  delete static_cast<Staging*>(staging_);
  cudaStreamDestroy(stream_);
}

void Device::make_current() { use(index_); }

void* Device::allocate(size_t bytes) {
  use(index_);
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  cudaError_t error = cudaMallocAsync(&memory, bytes, stream_);
  // What was freed last may still be in use, and what the pool keeps too small.
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    give_back();
    error = cudaMallocAsync(&memory, bytes, stream_);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    give_back();  // the pool may have taken what there was, which does not suffice
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw OutOfMemory(fmt::format("out of memory on device {}: {} MB are needed, {} of {} MB are free", index_,
                                  bytes >> 20, free >> 20, total >> 20));
  }
  check_cuda(error, "taking memory");
  return memory;
}

void Device::free(void* memory) {
  if (memory == nullptr) return;
  cudaSetDevice(index_);
  cudaFreeAsync(memory, stream_);  // an error would be an earlier one's, which is reported where it is noticed
}

void Device::give_back() {
  synchronize();
  check_cuda(cudaMemPoolTrimTo(memory_pool(index_), 0), "giving back memory");
}

namespace {

int64_t pool_bytes(int device, cudaMemPoolAttr what) {
  uint64_t bytes = 0;
  check_cuda(cudaMemPoolGetAttribute(memory_pool(device), what, &bytes), device, "asking for the memory that is used");
  return static_cast<int64_t>(bytes);
}

}  // namespace

int64_t Device::used() const { return pool_bytes(index_, cudaMemPoolAttrUsedMemCurrent); }
int64_t Device::peak() const { return pool_bytes(index_, cudaMemPoolAttrUsedMemHigh); }

void Device::prepare_uploads(size_t bytes) {
  use(index_);
  if (bytes <= kLargestStaged) static_cast<Staging*>(staging_)->prepare(bytes);
}

void Device::upload(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  use(index_);
  if (bytes <= kLargestStaged) return static_cast<Staging*>(staging_)->upload(to, from, bytes);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "copying to the device");
  check_cuda(cudaStreamSynchronize(stream_), "copying to the device");
}

void Device::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  use(index_);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copying on the device");
}

void Device::zero(void* to, size_t bytes) {
  if (bytes == 0) return;
  use(index_);
  check_cuda(cudaMemsetAsync(to, 0, bytes, stream_), "zeroing memory");
}

void Device::download(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  use(index_);
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying from the device");
  synchronize();
}

void Device::synchronize() {
  use(index_);
  check_cuda(cudaStreamSynchronize(stream_), "waiting for the device");
}

std::unique_ptr<Message> Device::message(size_t room) {
  use(index_);
  return std::make_unique<PinnedMessage>(index_, stream_, room);
}

std::unique_ptr<Recording> Device::record(const std::function<void()>& work) {
  use(index_);
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording kernels");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // what made the recording invalid is thrown
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_, &graph), "recording kernels");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(made, "making a graph of kernels");
  return std::make_unique<RecordedGraph>(index_, stream_, executable);
}

}  // namespace nmt::cuda
