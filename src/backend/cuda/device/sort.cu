#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/device/check.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/vectors.cuh"

namespace nmt::cuda {
namespace {

__global__ void count_kernel(int64_t n, int32_t* y) {
  if (const int64_t i = global_thread(); i < n) y[i] = static_cast<int32_t>(i);
}

int64_t count_bytes(int64_t rows) { return round_up(rows * static_cast<int64_t>(sizeof(int32_t)), 256); }

// With `temporary` null only `bytes` is set, to what the sort needs of it. The sort is stable.
void sort(Stream s, int64_t rows, const int32_t* ids, const int32_t* count, void* temporary, size_t& bytes,
          int32_t* sorted_ids, int32_t* order) {
  const cudaError_t status = cub::DeviceRadixSort::SortPairs(temporary, bytes, ids, sorted_ids, count, order,
                                                             static_cast<int>(rows), 0, 32, s);
  check_cuda(status, "sort_rows");
}

}  // namespace

int64_t sort_room(int64_t rows) {
  size_t bytes = 0;
  sort(nullptr, rows, nullptr, nullptr, nullptr, bytes, nullptr, nullptr);
  return count_bytes(rows) + static_cast<int64_t>(bytes);
}

void sort_rows(Stream s, int64_t rows, const int32_t* ids, void* room, int32_t* sorted_ids, int32_t* order) {
  if (rows == 0) return;
  auto* count = static_cast<int32_t*>(room);
  launch("count", s, flat_grid(rows, 1), count_kernel, rows, count);
  size_t bytes = static_cast<size_t>(sort_room(rows) - count_bytes(rows));
  sort(s, rows, ids, count, static_cast<std::byte*>(room) + count_bytes(rows), bytes, sorted_ids, order);
}

}  // namespace nmt::cuda
