#include "backend/cuda/communicator.h"

#include "backend/cuda/kernels.h"

namespace nmt::cuda {

void Communicator::reserve(int64_t count, DType sent) {
  const size_t bytes = sent == DType::kF32 ? 0 : static_cast<size_t>(devices_ * count) * size_of(sent);
  if (rounded_.bytes() < bytes) rounded_ = DeviceMemory(device_, bytes);
}

void Communicator::reduce_scatter(float* data, int64_t count, DType sent) {
  if (sent == DType::kF32) return add_parts(sent, data, count);
  reserve(count, sent);
  const int64_t all = devices_ * count;
  device_.make_current();
  auto* parts = static_cast<std::byte*>(rounded_.data());
  convert(device_.stream(), DType::kF32, data, sent, parts, all);
  add_parts(sent, parts, count);
  const int64_t own = rank_ * count;
  convert(device_.stream(), sent, parts + own * static_cast<int64_t>(size_of(sent)), DType::kF32, data + own, count);
}

}  // namespace nmt::cuda
