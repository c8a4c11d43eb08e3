#ifdef NMT_CUDA_EMULATION
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "backend/cuda/launch.cuh"
#include "tests/catch.h"

using namespace nmt;
using namespace nmt::cuda;

namespace {

__global__ void sum_blocks(const float* x, float* y) {
  auto* room = shared_memory<float>();
  const float sum = block_sum(x[global_thread()], room);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void only_barriers(int n) {
  for (int i = 0; i < n; ++i) __syncthreads();
}

__global__ void only_shuffles(int n) {
  for (int i = 0; i < n; ++i) __syncwarp();
}
__global__ void nothing(int* n) { ++*n; }

}  // namespace

TEST_CASE("emulation: sums of blocks", "[emulation]") {
  std::vector<float> x(5 * 96), y(5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
  launch("sum_blocks", nullptr, {.x = 5, .threads = 96, .shared = 128}, sum_blocks, x.data(), y.data());
  for (size_t b = 0; b < 5; ++b) {
    float expected = 0;
    for (size_t i = 0; i < 96; ++i) expected += x[b * 96 + i];
    CHECK(y[b] == expected);
  }
}

TEST_CASE("speed", "[.speed]") {
  for (int threads : {32, 256, 1024}) {
    for (int order : {0, 1}) {
      emulation::set_thread_order(order);
      using Clock = std::chrono::steady_clock;
      auto from = Clock::now();
      const int n = 2000;
      launch("b", nullptr, {.x = 10, .threads = threads}, only_barriers, n);
      double s = std::chrono::duration<double>(Clock::now() - from).count();
      std::printf("%4d threads order %d: %.1f M barrier passings/s", threads, order, n * 10 * threads / s / 1e6);
      from = Clock::now();
      launch("b", nullptr, {.x = 10, .threads = threads}, only_shuffles, n);
      s = std::chrono::duration<double>(Clock::now() - from).count();
      std::printf(", %.1f M syncwarps/s", n * 10 * threads / s / 1e6);
      from = Clock::now();
      int count = 0;
      launch("b", nullptr, {.x = 10000, .threads = threads}, nothing, &count);
      s = std::chrono::duration<double>(Clock::now() - from).count();
      std::printf(", %.1f M threads/s\n", count / s / 1e6);
    }
  }
  emulation::set_thread_order(0);
}
#endif
