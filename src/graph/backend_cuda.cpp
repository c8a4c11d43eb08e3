#include "graph/backend_cuda.h"

#include <algorithm>

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
    const auto [of, elements, t] = copy.first;
    return begin < reinterpret_cast<const std::byte*>(of + elements) &&
           reinterpret_cast<const std::byte*>(of) < begin + bytes;
  };
  if (std::erase_if(copies_, lies_here) > 0) ++recordings_version_;
}

void CudaBackend::copy_rows(std::span<const RowCopy> copies, std::span<const int32_t> rows) {
  if (rows_.bytes() < rows.size_bytes()) rows_ = cuda::DeviceMemory(device_, 2 * rows.size_bytes());
  device_.upload(rows_.data(), rows.data(), rows.size_bytes());
  named("copying rows", [&] {
    for (const auto& [to, from, bytes, stride] : copies)
      cuda::scatter_rows(stream(), std::ssize(rows), static_cast<int64_t>(bytes), from, static_cast<int64_t>(stride),
                         static_cast<const int32_t*>(rows_.data()), to);
  });
}

void CudaBackend::sum_of_squares(ThreadPool&, int64_t n, const float* x, double* sum) {
  const auto bytes = static_cast<size_t>(cuda::sum_of_squares_room(n)) * sizeof(double);
  if (sums_.bytes() < bytes) sums_ = cuda::DeviceMemory(device_, bytes);
  named("norm", [&] { cuda::sum_of_squares(stream(), n, x, static_cast<double*>(sums_.data()), sum); });
}

void CudaBackend::adam(ThreadPool&, const Update* update, int64_t n, float* g, float* m, float* v, float* p,
                       float* average) {
  const auto whole = std::ranges::find_if(copies_, [&](const auto& copy) {
    const auto [of, elements, t] = copy.first;
    return of == p && elements == n && t != DType::kF32 && copy.second.version == version_;
  });
  const bool has_copy = whole != copies_.end();
  const DType t = has_copy ? std::get<DType>(whole->first) : DType::kF32;
  named("update", [&] {
    cuda::adam(stream(), update, n, g, m, v, p, average, t, has_copy ? whole->second.memory.data() : nullptr);
  });
  if (has_copy) whole->second.version = version_ + 1;  // that of parameters_changed()
}

const void* CudaBackend::weight(const Tensor& w, DType t) {
  const auto* data = static_cast<const float*>(w.data);
  if (w.dtype() == t && reinterpret_cast<uintptr_t>(data) % 16 == 0) return data;
  check(w.dtype() == DType::kF32, "a weight of {}", name_of(w.dtype()));
  const float* begin = data;
  int64_t elements = w.elements();
  if (auto behind = sizes_.upper_bound(data); behind != sizes_.begin()) {
    const auto& [memory, bytes] = *--behind;
    const auto* all = static_cast<const float*>(memory);
    if (data + elements <= all + bytes / sizeof(float) && (data - all) * static_cast<int64_t>(size_of(t)) % 16 == 0) {
      begin = all;
      elements = static_cast<int64_t>(bytes / sizeof(float));
    }
  }
  Copy& copy = copies_[{begin, elements, t}];
  if (copy.version != version_) {
    const size_t bytes = static_cast<size_t>(elements) * size_of(t);
    if (copy.memory.bytes() != bytes) copy.memory = cuda::DeviceMemory(device_, bytes);
    cuda::convert(stream(), DType::kF32, begin, t, copy.memory.data(), elements);
    copy.version = version_;
  }
  return static_cast<const std::byte*>(copy.memory.data()) + (data - begin) * static_cast<int64_t>(size_of(t));
}

}  // namespace nmt
