#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/communicator.h"
#include "base/aligned.h"
#include "base/thread_pool.h"
#include "graph/op.h"
#include "tensor/message.h"
#include "tensor/recording.h"
#include "tensor/update.h"

namespace nmt {

// Where a runtime computes: the host, or a device with memory of its own. What is begun on a backend is done in order.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual bool on_host() const = 0;
  virtual std::string name() const = 0;  // "cpu", or the device's number and name

  // Memory for tensors. OutOfMemory, with how much, where it does not suffice.
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  virtual void give_back() {}  // what was freed, where it was kept
  // Bytes of a device's memory that this program has taken: now, and the most there were. On the host 0.
  virtual int64_t used() const = 0;
  virtual int64_t peak() const = 0;
  virtual void prepare_uploads(size_t bytes) = 0;  // of so many bytes, so that none has to wait for memory
  virtual void upload(void* to, const void* from, size_t bytes) = 0;    // from the host; `from` may change afterwards
  virtual void download(void* to, const void* from, size_t bytes) = 0;  // to the host, which waits for it
  virtual void copy(void* to, const void* from, size_t bytes) = 0;      // within the backend's memory
  // Of each: row r of `from`, so many bytes at r * `stride`, becomes row rows[r] of `to`; less than 0: of none.
  struct RowCopy {
    void* to;
    const void* from;
    size_t bytes, stride = bytes;
  };
  virtual void copy_rows(std::span<const RowCopy> copies, std::span<const int32_t> rows) = 0;
  virtual void zero(void* to, size_t bytes) = 0;
  virtual void make_current() {}   // what this thread asks of a device's libraries is asked of this one from now on
  virtual void synchronize() = 0;  // waits for all that was begun

  virtual void compute(const Op& op, const Launch& launch) = 0;
  // Updates; see tensor/update.h. All pointers are the backend's memory; the pool's threads may help, no result depends
  // on them.

  // *sum = the sum of the squares of x's n elements
  virtual void sum_of_squares(ThreadPool& pool, int64_t n, const float* x, double* sum) = 0;
  // *sum += *x
  virtual void add_to(const float* x, double* sum) = 0;
  // *update = nmt::decide(rule, *totals, *update)
  virtual void decide(const UpdateRule& rule, const UpdateTotals* totals, Update* update) = 0;
  // The update that was decided on, over n floats: Adam, or where it is skipped only g = 0. `average` may be null.
  // parameters_changed() is to follow.
  virtual void adam(ThreadPool& pool, const Update* update, int64_t n, float* g, float* m, float* v, float* p,
                    float* average) = 0;
  virtual std::unique_ptr<Message> message(size_t room) = 0;  // for so many bytes, and more
  // What `work` begins, not done but to be begun again and again (see cuda::Device::record). Null: the host records
  // nothing.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;
  // Changes where a recording may be out of date although what it reads lies where it did.
  virtual uint64_t recordings_version() const = 0;
  // Products of float32 may be of TF32 from now on. UserError where there is none of it.
  virtual void use_tf32() = 0;
  virtual bool uses_tf32() const = 0;
  // Values of parameters, or of memory that was one, are not what they were: copies of them are out of date.
  virtual void parameters_changed() {}
  virtual void forget([[maybe_unused]] const void* data) {}  // the same of the parameter that lies here
};

std::shared_ptr<Backend> host_backend();
// A line for each device: number, name, memory, compute capability; or one that says why there is none.
std::string device_list();
// "cpu", or the number of a device. UserError where there is no such device or nmt was built without CUDA.
std::shared_ptr<Backend> backend_of(const std::string& device);
// Several: "cpu" alone, different devices of one kind (UserError otherwise), or "auto": the first device, or where
// there is none or it is unsuitable, which is logged, the host.
std::vector<std::shared_ptr<Backend>> backends_of(const std::vector<std::string>& devices);
// Of all of them, as one text.
std::string names_of(std::span<const std::shared_ptr<Backend>> backends);
// What a program's --precision (auto, f32, tf32, bf16, f16) asks for on these backends, which multiply in TF32 from now
// on where it says so. auto: bf16 on devices, and on the host where the caller wants it there.
DType compute_type(const std::string& precision, std::span<const std::shared_ptr<Backend>> backends, bool bf16_on_host);
// What several devices' backends talk to each other through, in their order.
std::vector<std::unique_ptr<cuda::Communicator>> connect(std::span<const std::shared_ptr<Backend>> backends);

// Memory of a backend, owned.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<Backend> backend, size_t bytes)
      : backend_(std::move(backend)), data_(backend_->allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) backend_->free(data_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Backend> backend_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Floats that ops read and write, and a view of them on the host: the same memory there, else a copy that is as new as
// the last upload() or download().
class FloatBuffer {
 public:
  FloatBuffer() = default;
  // All zeros. room: floats that the memory of a device has at least; those beyond `count` are zero too.
  FloatBuffer(std::shared_ptr<Backend> backend, size_t count, size_t room = 0);
  // Somebody else's memory on the host, which lives as long as this object.
  FloatBuffer(std::shared_ptr<Backend> backend, std::span<float> borrowed, size_t room = 0);

  float* data() const {
    return on_device_.data() != nullptr ? reinterpret_cast<float*>(on_device_.data()) : host_.data();
  }
  std::span<float> host() const;
  size_t size() const { return count_; }
  void upload();
  void download();
  void zero();  // the memory that ops see

 private:
  std::shared_ptr<Backend> backend_;
  size_t count_ = 0;
  mutable AlignedVector<float> own_;  // of a device's: taken when somebody looks
  mutable std::span<float> host_;
  Buffer on_device_;  // empty on the host
};

}  // namespace nmt
