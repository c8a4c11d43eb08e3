#pragma once

#include "tests/cpu/kernel_testing.h"
#include "tests/cuda/device_testing.h"

// The arrays of the CPU kernels' tests, on a device.
namespace nmt::testing {

// A device, and arrays that are uploaded for one call: on(x) is where x lies there.
class OnDevice {
 public:
  explicit OnDevice(cuda::Device& device) : device_(device) {}

  cuda::Stream stream() const { return device_.stream(); }

  // `shift` bytes behind the beginning of the memory, for kernels that are given what is not aligned.
  void* operator()(const Array& x, size_t shift = 0) { return upload(x.data(), bytes_of(x), shift); }
  template <class T>
  T* operator()(const std::vector<T>& x) {
    return static_cast<T*>(upload(x.data(), x.size() * sizeof(T), 0));
  }
  void* room(int64_t bytes) {
    memory_.emplace_back(device_, static_cast<size_t>(bytes));
    return memory_.back().data();
  }

  // What lies at `from`, which operator() returned, into x.
  void read(const void* from, Array& x) { device_.download(x.data(), from, bytes_of(x)); }
  template <class T>
  void read(const T* from, std::vector<T>& x) {
    device_.download(x.data(), from, x.size() * sizeof(T));
  }

 private:
  static size_t bytes_of(const Array& x) { return x.size() * size_of(x.dtype()); }

  void* upload(const void* x, size_t bytes, size_t shift) {
    auto* at = static_cast<std::byte*>(room(static_cast<int64_t>(bytes + shift))) + shift;
    device_.upload(at, x, bytes);
    return at;
  }

  cuda::Device& device_;
  std::vector<cuda::DeviceMemory> memory_;
};

// The same result in every order of threads: result(OnDevice&) is an Array, or something else that has ==.
template <class Result>
auto in_any_order(cuda::Device& device, Result result) {
  std::unique_ptr<decltype(result(std::declval<OnDevice&>()))> first;
  in_thread_orders([&] {
    OnDevice on(device);
    auto next = result(on);
    if (first == nullptr)
      first = std::make_unique<decltype(next)>(std::move(next));
    else
      CHECK(next == *first);
  });
  return *first;
}

}  // namespace nmt::testing
