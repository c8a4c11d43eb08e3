// The emulation itself: kernels that are right, and kernels with mistakes that it must find.
#ifdef NMT_CUDA_EMULATION
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/launch.cuh"
#include "base/error.h"
#include "tests/catch.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

using namespace nmt;
using namespace nmt::cuda;
using Catch::Matchers::Contains;

namespace {

constexpr int kSeeds = 20;

// Calls body() in the natural order and in many others.
void in_every_order(const std::function<void()>& body) {
  for (int seed = 0; seed <= kSeeds; ++seed) {
    INFO("order " << seed);
    emulation::set_thread_order(static_cast<uint64_t>(seed));
    body();
  }
  emulation::set_thread_order(0);
}

template <class... Parameters, class... Arguments>
void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments... arguments) {
  cuda::launch("kernel_of_the_test", nullptr, grid, kernel, arguments...);
}

std::vector<int> counted(int n) {
  std::vector<int> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1);
  return x;
}

// ---- kernels without mistakes -------------------------------------------------------------------

__global__ void number_threads(int* y) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  y[block * blockDim.x + threadIdx.x] = static_cast<int>(block * 1000 + threadIdx.x);
}

__global__ void sum_blocks(const int* x, float* sums) {
  auto* room = shared_memory<float>();
  for (int again = 0; again < 3; ++again) {  // the room is used again
    const float sum = block_sum(static_cast<float>(x[global_thread()]), room);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  }
}

// Threads leave one after the other, the others still meet.
__global__ void leave(int* y) {
  int* room = shared_memory<int>();
  room[threadIdx.x] = 0;
  for (unsigned left = 0; left < blockDim.x; ++left) {
    __syncthreads();
    if (threadIdx.x == left) return;
    ++room[threadIdx.x];
    y[threadIdx.x] = room[threadIdx.x];
  }
}

struct Shuffled {
  int broadcast, crossed, in_eight;
  double number;
  unsigned odd, sixth;
};
__global__ void shuffle(Shuffled* y) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  // The even lanes and the odd ones meet among themselves, in different places.
  const unsigned mask = lane % 2 == 0 ? 0x55555555 : 0xaaaaaaaa;
  Shuffled s{};
  if (lane % 2 == 0) {
    s.broadcast = __shfl_sync(mask, lane, 4);
    s.sixth = __ballot_sync(mask, lane == 6);
  } else {
    s.sixth = __ballot_sync(mask, lane == 6);
    s.broadcast = __shfl_sync(mask, lane, 5);
  }
  __syncwarp();
  s.crossed = __shfl_xor_sync(kAllLanes, lane, 16);
  s.in_eight = __shfl_sync(kAllLanes, lane, 10, 8);
  s.number = __shfl_sync(kAllLanes, lane + 0.25, 31);
  s.odd = __ballot_sync(kAllLanes, lane % 2);
  y[threadIdx.x] = s;
}

__global__ void count(int* n, unsigned long long* sum) {
  atomicAdd(n, 1);
  atomicAdd(sum, static_cast<unsigned long long>(global_thread()));
}

template <class T>
concept AddsAtomically = requires(T* at, T x) {
  atomicAdd(at, x);
};
static_assert(AddsAtomically<int> && AddsAtomically<unsigned> && AddsAtomically<unsigned long long>);
static_assert(!AddsAtomically<float> && !AddsAtomically<double>);

// ---- kernels with mistakes ----------------------------------------------------------------------

// Each thread reads what the one before it writes.
__global__ void shift(const int* x, int* y, bool barrier) {
  int* room = shared_memory<int>();
  for (int again = 0; again < 2; ++again) {
    room[threadIdx.x] = x[threadIdx.x] + again;
    if (barrier) __syncthreads();
    y[threadIdx.x] = threadIdx.x == 0 ? 0 : room[threadIdx.x - 1];
    if (barrier) __syncthreads();
  }
}

// Blocks that count on those before them.
__global__ void chain_blocks(int* y) { y[blockIdx.x + 1] = y[blockIdx.x] + 1; }

enum class Mistake {
  kBarrierInBranch,
  kMissingLane,
  kReturnedLane,
  kLaterReturn,
  kOtherMask,
  kOtherOperation,
  kNotInMask,
  kNoSuchLane,
  kThrow,
  kLaunch
};
__global__ void nothing() {}
__global__ void mistaken(Mistake mistake) {
  const unsigned lane = threadIdx.x;
  if (mistake == Mistake::kBarrierInBranch) {
    if (lane < 40)
      __syncthreads();
    else
      __syncwarp(0xffffff);
  }
  if (mistake == Mistake::kMissingLane) {
    if (lane % kWarp != 5) __syncwarp();
    __syncthreads();
  }
  if (mistake == Mistake::kReturnedLane) {
    if (lane == 5) return;
    __syncthreads();
    __syncwarp();
  }
  if (mistake == Mistake::kLaterReturn && lane != 31) __syncwarp();
  if (mistake == Mistake::kOtherMask) __shfl_sync(lane == 0 ? 0x3 : kAllLanes, 1, 0);
  if (mistake == Mistake::kOtherOperation) {
    if (lane % 2 == 0)
      __ballot_sync(kAllLanes, 1);
    else
      __syncwarp();
  }
  if (mistake == Mistake::kNotInMask) __syncwarp(0xfffe);
  if (mistake == Mistake::kNoSuchLane && lane >= kWarp) __syncwarp();
  if (mistake == Mistake::kThrow) {
    const std::string unwound(100, 'x');
    if (lane == 17) fail("thrown by {}", lane);
    __syncthreads();
  }
  if (mistake == Mistake::kLaunch) cuda::launch("inner", nullptr, {}, nothing);
}

__global__ void copy_shared(unsigned* y, int words) {
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
    y[i] = shared_memory<unsigned>()[i];
  __syncthreads();
  shared_memory<unsigned>()[threadIdx.x] = 0;
}

__global__ void write_shared(int at) { shared_memory()[at] = std::byte{1}; }
#ifdef __SANITIZE_ADDRESS__
__global__ void find_poison(int at, bool* found) { *found = __asan_address_is_poisoned(shared_memory() + at); }
#endif

}  // namespace

TEST_CASE("emulation: every thread of every block runs once", "[emulation]") {
  in_every_order([] {
    constexpr int kBlocks = 5 * 3 * 2, kThreads = 37;
    std::vector<int> y(kBlocks * kThreads, -1);
    launch({.x = 5, .y = 3, .z = 2, .threads = kThreads}, number_threads, y.data());
    for (int i = 0; i < kBlocks * kThreads; ++i) REQUIRE(y[i] == i / kThreads * 1000 + i % kThreads);

    int n = 0;
    unsigned long long sum = 0;
    launch({.x = 11, .threads = 1000}, count, &n, &sum);
    CHECK(n == 11000);
    CHECK(sum == 11000ull * 10999 / 2);
  });
}

TEST_CASE("emulation: barriers and shuffles", "[emulation]") {
  in_every_order([] {
    for (const int threads : {32, 96, 1024}) {
      const std::vector<int> x = counted(3 * threads);
      std::vector<float> sums(3);
      launch({.x = 3, .threads = threads, .shared = 32 * sizeof(float)}, sum_blocks, x.data(), sums.data());
      for (int b = 0; b < 3; ++b) {
        const int first = b * threads + 1, last = first + threads - 1;
        CHECK(sums[b] == static_cast<float>((first + last) * threads / 2));
      }
    }

    std::vector<int> left(50);
    launch({.threads = 50, .shared = 50 * sizeof(int)}, leave, left.data());
    for (int t = 0; t < 50; ++t) CHECK(left[t] == t);

    std::vector<Shuffled> shuffled(64);
    launch({.threads = 64}, shuffle, shuffled.data());
    for (int t = 0; t < 64; ++t) {
      const int lane = t % 32;
      const Shuffled& s = shuffled[t];
      REQUIRE(s.broadcast == 4 + lane % 2);
      REQUIRE(s.crossed == (lane ^ 16));
      REQUIRE(s.in_eight == lane / 8 * 8 + 2);
      REQUIRE(s.number == 31.25);
      REQUIRE(s.odd == 0xaaaaaaaa);
      REQUIRE(s.sixth == (lane % 2 == 0 ? 0x40u : 0u));
    }
  });
}

TEST_CASE("emulation: a race changes the result in some order", "[emulation]") {
  const std::vector<int> x = counted(100);
  std::vector<int> right(100);
  for (int t = 1; t < 100; ++t) right[t] = x[t - 1] + 1;
  int found = 0, blocks_found = 0;
  in_every_order([&] {
    std::vector<int> y(100);
    launch({.threads = 100, .shared = 400}, shift, x.data(), y.data(), true);
    CHECK(y == right);
    launch({.threads = 100, .shared = 400}, shift, x.data(), y.data(), false);
    found += y != right;
    std::vector<int> chained(100);
    launch({.x = 99, .threads = 1}, chain_blocks, chained.data());
    blocks_found += chained[99] != 99;
  });
  CHECK(found == kSeeds);  // in all orders but the natural one
  CHECK(blocks_found == kSeeds);
}

TEST_CASE("emulation: threads that wait in vain are an error", "[emulation]") {
  const std::pair<Mistake, const char*> cases[] = {
      {Mistake::kBarrierInBranch,
       "kernel kernel_of_the_test, block (0, 0, 0): its threads wait for ever: 40 (the first is 0) at __syncthreads, "
       "16 (the first is 40) at __syncwarp with the mask 0x00ffffff"},
      {Mistake::kMissingLane, "threads wait for ever: 2 (the first is 5) at __syncthreads, 62 (the first is 0)"},
      {Mistake::kReturnedLane, "thread 5 has returned or was never there"},
      {Mistake::kLaterReturn, ""},
      {Mistake::kOtherMask, "with the mask 0x00000003"},
      {Mistake::kOtherOperation, "waits at __"},
      {Mistake::kNotInMask, "is not in its own mask 0x0000fffe of __syncwarp"},
      {Mistake::kNoSuchLane, ""},
      {Mistake::kThrow, "thrown by 17"},
      {Mistake::kLaunch, "kernel inner: launched in the kernel kernel_of_the_test"},
  };
  in_every_order([&] {
    for (const auto& [mistake, message] : cases) {
      INFO("mistake " << static_cast<int>(mistake));
      const int threads = mistake == Mistake::kNoSuchLane ? 48 : mistake == Mistake::kBarrierInBranch ? 56 : 64;
      CHECK_THROWS_WITH(launch({.x = 1, .threads = threads}, mistaken, mistake), Contains(message));
      std::vector<int> y(70);  // and the next kernel runs
      launch({.threads = 70}, number_threads, y.data());
      CHECK(y[69] == 69);
    }
  });
}

TEST_CASE("emulation: shared memory is unset in each block", "[emulation]") {
  constexpr int kWords = 1000;
  std::vector<unsigned> y(kWords);
  launch({.x = 3, .threads = 128, .shared = 4 * kWords}, copy_shared, y.data(), kWords);
  for (const unsigned word : y) {
    REQUIRE(std::isnan(__uint_as_float(word)));
    REQUIRE(std::isnan(to_float(Bf16{static_cast<uint16_t>(word)})));
    REQUIRE(std::isnan(to_float(Bf16{static_cast<uint16_t>(word >> 16)})));
    REQUIRE(static_cast<int>(word) > 1 << 30);
  }
}

TEST_CASE("emulation: writes outside of shared memory are found", "[emulation]") {
  for (const int bytes : {0, 1, 100, 128, 99 << 10}) {
    const Grid grid{.x = 2, .threads = 1, .shared = static_cast<size_t>(bytes)};
    if (bytes > 0) CHECK_NOTHROW(launch(grid, write_shared, bytes - 1));
    for (const int at : {-1, -500, bytes, bytes + 500}) {
#ifdef __SANITIZE_ADDRESS__
      bool found = false;
      launch(grid, find_poison, at, &found);
      CHECK(found);
#else
      CHECK_THROWS_WITH(
          launch(grid, write_shared, at),
          "kernel kernel_of_the_test, block (0, 0, 0): something was written outside of its shared memory");
#endif
    }
  }
}

TEST_CASE("emulation: launches have CUDA's limits", "[emulation]") {
  CHECK_NOTHROW(launch({.x = 0}, nothing));
  CHECK_NOTHROW(launch({.x = 2, .y = 65535, .threads = 1}, nothing));
  CHECK_NOTHROW(launch({.threads = 1024, .shared = 99 << 10}, nothing));
  const Grid refused[] = {{.threads = 0}, {.threads = 1025}, {.threads = -1}, {.x = int64_t{1} << 31},
                          {.y = 65536},   {.z = 65536},      {.x = -1},       {.shared = (99 << 10) + 1},
                          {.y = 1 << 20}};
  for (const Grid& grid : refused) CHECK_THROWS_WITH(launch(grid, nothing), Contains("kernel kernel_of_the_test: "));
}

TEST_CASE("emulation: host threads run kernels of their own", "[emulation]") {
  const std::vector<int> x = counted(512);
  std::vector<float> sums(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      for (int again = 0; again < 50; ++again)
        launch({.threads = 512, .shared = 128}, sum_blocks, x.data(), sums.data() + i);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(sums == std::vector<float>(2, 513 * 256));
}
#endif
