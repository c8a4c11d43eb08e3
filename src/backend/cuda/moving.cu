#include <algorithm>
#include <bit>

#include "backend/cuda/kernels.h"
#include "backend/cuda/vectors.cuh"

namespace nmt::cuda {
namespace {

constexpr int kThreads = 256;

// Where row r of a copy lies, in bytes; a target less than 0: nowhere.
struct EvenRows {
  int64_t stride, first;
  __device__ int64_t operator()(int64_t r) const { return r * stride + first; }
};
struct SwappedRows {  // row (h, r) of [heads, rows] lies at (r, h)
  int64_t rows, heads, bytes;
  __device__ int64_t operator()(int64_t r) const { return (r % rows * heads + r / rows) * bytes; }
};
struct ListedRows {
  const int32_t* row;
  int64_t bytes;
  __device__ int64_t operator()(int64_t r) const { return row[r] * bytes; }
};

// Rows of `units` Units, 2^log_lanes threads to a row.
template <class Unit, class From, class To>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(int64_t rows, int64_t units, int log_lanes, const std::byte* x, From from, std::byte* y, To to) {
  const int64_t r = global_thread() >> log_lanes;
  if (r >= rows) return;
  const int64_t target = to(r);
  if (target < 0) return;
  const int lanes = 1 << log_lanes;
  const auto* in = reinterpret_cast<const Unit*>(x + from(r));
  auto* out = reinterpret_cast<Unit*>(y + target);
  for (int64_t i = threadIdx.x & (lanes - 1); i < units; i += lanes) out[i] = in[i];
}

struct alignas(16) Bytes16 {
  uint64_t x[2];
};

// The largest unit of a copy is a power of two that divides everything `multiples` has the bits of.
template <class From, class To>
void copy_rows(const char* name, Stream s, int64_t rows, int64_t bytes, int64_t multiples, const void* x, From from,
               void* y, To to) {
  if (bytes == 0) return;
  const uintptr_t all =
      static_cast<uintptr_t>(bytes | multiples) | reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
  const auto copy = [&](auto unit) {
    using Unit = decltype(unit);
    const int64_t units = bytes / static_cast<int64_t>(sizeof(Unit));
    const int log_lanes = std::bit_width(static_cast<unsigned>(std::min<int64_t>(units, kThreads)) - 1);
    const Grid grid = {.x = divide_up(rows, kThreads >> log_lanes), .threads = kThreads};
    launch(name, s, grid, copy_rows_kernel<Unit, From, To>, rows, units, log_lanes, static_cast<const std::byte*>(x),
           from, static_cast<std::byte*>(y), to);
  };
  if (all % 16 == 0)
    copy(Bytes16());
  else if (all % 4 == 0)
    copy(uint32_t());
  else if (all % 2 == 0)
    copy(uint16_t());
  else
    copy(uint8_t());
}

}  // namespace

void copy_columns(Stream s, int size, int64_t rows, int64_t count, const void* x, int64_t x_width, int64_t from,
                  void* y, int64_t y_width, int64_t to) {
  const EvenRows source = {x_width * size, from * size}, target = {y_width * size, to * size};
  copy_rows("copy_columns", s, rows, count * size, source.stride | source.first | target.stride | target.first, x,
            source, y, target);
}

void swap_heads(Stream s, int size, int64_t rows, int64_t heads, int64_t d, const void* x, void* y) {
  const int64_t bytes = d * size;
  copy_rows("swap_heads", s, rows * heads, bytes, bytes, x, SwappedRows{rows, heads, bytes}, y, EvenRows{bytes, 0});
}

void scatter_rows(Stream s, int64_t rows, int64_t bytes, const void* x, int64_t x_stride, const int32_t* to, void* y) {
  copy_rows("scatter_rows", s, rows, bytes, x_stride, x, EvenRows{x_stride, 0}, y, ListedRows{to, bytes});
}

}  // namespace nmt::cuda
