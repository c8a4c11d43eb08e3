#include "graph/backend_cuda.h"

#include <fmt/format.h>

#include "graph/runtime.h"

namespace nmt {

CudaBackend& CudaBackend::of(const Launch& launch) { return static_cast<CudaBackend&>(*launch.runtime.backend()); }

std::string CudaBackend::name() const { return fmt::format("device {}, {}", device_.index(), device_.info().name); }

void* CudaBackend::allocate(size_t bytes) {
  void* memory = device_.allocate(bytes);
  sizes_[memory] = bytes;
  return memory;
}

void CudaBackend::free(void* memory) {
  // Other parameters may come to lie there.
  remove_copies(memory, sizes_[memory]);
  sizes_.erase(memory);
  device_.free(memory);
}

void CudaBackend::remove_copies(const void* memory, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  const auto lies_here = [&](const auto& copy) {
    const void* of = std::get<0>(copy.first);
    return of >= begin && of < begin + bytes;
  };
  if (std::erase_if(copies_, lies_here) > 0) ++recordings_version_;
}

void CudaBackend::copy_rows(std::span<const RowCopy> copies, std::span<const int32_t> rows) {
  if (rows_.bytes() < rows.size_bytes()) rows_ = cuda::DeviceMemory(device_, 2 * rows.size_bytes());
  device_.upload(rows_.data(), rows.data(), rows.size_bytes());
  named("copying rows", [&] {
    for (const auto& [to, from, bytes] : copies)
      cuda::scatter_rows(stream(), std::ssize(rows), static_cast<int64_t>(bytes), from, static_cast<int64_t>(bytes),
                         static_cast<const int32_t*>(rows_.data()), to);
  });
}

void CudaBackend::sum_of_squares(ThreadPool&, int64_t n, const float* x, double* sum) {
  const auto bytes = static_cast<size_t>(cuda::sum_of_squares_room(n)) * sizeof(double);
  if (sums_.bytes() < bytes) sums_ = cuda::DeviceMemory(device_, bytes);
  named("norm", [&] { cuda::sum_of_squares(stream(), n, x, static_cast<double*>(sums_.data()), sum); });
}

const void* CudaBackend::weight(const Tensor& w, DType t) {
  if (w.dtype() == t && reinterpret_cast<uintptr_t>(w.data) % 16 == 0) return w.data;
  Copy& copy = copies_[{w.data, w.elements(), t}];
  if (copy.version != version_) {
    const size_t bytes = static_cast<size_t>(w.elements()) * size_of(t);
    if (copy.memory.bytes() != bytes) copy.memory = cuda::DeviceMemory(device_, bytes);
    cuda::convert(stream(), w.dtype(), w.data, t, copy.memory.data(), w.elements());
    copy.version = version_;
  }
  return copy.memory.data();
}

}  // namespace nmt
