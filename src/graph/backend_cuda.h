#pragma once

#include <map>
#include <tuple>

#include "backend/cuda/device.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/kernels.h"
#include "base/error.h"
#include "graph/backend.h"

namespace nmt {

// A CUDA device: ops compute by their cuda().
class CudaBackend : public Backend {
 public:
  // As cuda::Device.
  explicit CudaBackend(int index) : device_(index), products_(device_) {}
  // The backend of a launch that is on a device.
  static CudaBackend& of(const Launch& launch);

  bool on_host() const override { return false; }
  std::string name() const override;
  void* allocate(size_t bytes) override;
  void free(void* memory) override;
  void give_back() override { device_.give_back(); }
  int64_t used() const override { return device_.used(); }
  int64_t peak() const override { return device_.peak(); }
  void upload(void* to, const void* from, size_t bytes) override { device_.upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { device_.download(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { device_.copy(to, from, bytes); }
  void copy_rows(std::span<const RowCopy> copies, std::span<const int32_t> rows) override;
  void zero(void* to, size_t bytes) override { device_.zero(to, bytes); }
  void make_current() override { device_.make_current(); }
  void synchronize() override { device_.synchronize(); }
  void compute(const Op& op, const Launch& launch) override {
    named(op.name(), [&] { op.cuda(launch); });
  }
  void sum_of_squares(ThreadPool& pool, int64_t n, const float* x, double* sum) override;
  void add_to(const float* x, double* sum) override {
    named("loss", [&] { cuda::add_to(stream(), x, sum); });
  }
  void decide(const UpdateRule& rule, const UpdateTotals* totals, Update* update) override {
    named("update", [&] { cuda::decide(stream(), rule, totals, update); });
  }
  void adam(ThreadPool& pool, const Update* update, int64_t n, float* g, float* m, float* v, float* p,
            float* average) override;
  std::unique_ptr<Message> message(size_t room) override { return device_.message(room); }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override { return device_.record(work); }
  uint64_t recordings_version() const override { return recordings_version_; }
  void prepare_uploads(size_t bytes) override { device_.prepare_uploads(bytes); }
  bool uses_tf32() const override { return products_.tf32; }
  void use_tf32() override {
    products_.tf32 = true;
    ++recordings_version_;
  }
  void parameters_changed() override {
    ++version_;
    ++recordings_version_;
  }
  void forget(const void* data) override { remove_copies(data, 1); }

  cuda::Device& device() { return device_; }
  cuda::Stream stream() const { return device_.stream(); }
  cuda::Products& products() { return products_; }
  // A parameter as products of dtype t read it, 16-byte aligned: itself, or its place in a copy of all that was
  // allocated together (where it would not be aligned, a copy of its own). A copy is made anew after
  // parameters_changed(), unless adam() has written it, too.
  const void* weight(const Tensor& w, DType t);

 private:
  struct Copy {
    uint64_t version = 0;
    cuda::DeviceMemory memory;
  };

  void remove_copies(const void* memory, size_t bytes);  // of what lies there

  // A device's failure may be noticed later than it happens: what is named is what could not begin.
  template <class Begin>
  void named(std::string_view what, Begin begin) {
    try {
      device_.make_current();
      begin();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      fail("{}: {}: {}", name(), what, error.what());
    }
  }

  cuda::Device device_;
  cuda::Products products_;
  cuda::DeviceMemory sums_;          // of sum_of_squares()
  cuda::DeviceMemory rows_;          // of copy_rows()
  uint64_t version_ = 1;             // of the parameters' values
  uint64_t recordings_version_ = 0;  // grows where a copy goes out of date or away, or products change
  std::map<std::tuple<const float*, int64_t, DType>, Copy> copies_;  // by address, number of elements and type
  std::map<const void*, size_t> sizes_;                              // of what is allocated
};

}  // namespace nmt
