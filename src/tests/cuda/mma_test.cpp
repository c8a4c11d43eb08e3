// What mma.cuh says of fragments.
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/cuda/array_testing.h"
#include "tests/cuda/mma_kernels.h"
#ifdef NMT_CUDA_EMULATION
#include "backend/cuda/mma.cuh"
#include "base/error.h"
#include "base/philox.h"
#endif

using namespace nmt;
using namespace nmt::testing;

namespace {

constexpr int kM = 16, kN = 8, kK = 16;

std::vector<float> small_numbers(size_t n, unsigned seed) {  // both types hold them
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = (static_cast<float>(random() % 255) - 127) * std::ldexp(1.f, -static_cast<int>(random() % 8));
  return x;
}

std::vector<uint16_t> bits_of(bool half, const std::vector<float>& x) {
  std::vector<uint16_t> bits;
  for (const float v : x) bits.push_back(half ? std::bit_cast<uint16_t>(static_cast<_Float16>(v)) : to_bf16(v));
  return bits;
}

// Each element against a product in float64, of n columns.
void check_product(int n, const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& before,
                   const std::vector<float>& after) {
  for (int row = 0; row < kM; ++row)
    for (int column = 0; column < n; ++column) {
      double sum = before[row * n + column], sizes = std::abs(sum);
      for (int k = 0; k < kK; ++k) {
        const double product = static_cast<double>(a[row * kK + k]) * b[k * n + column];
        sum += product;
        sizes += std::abs(product);
      }
      INFO("row " << row << ", column " << column);
      REQUIRE(std::abs(after[row * n + column] - sum) <= sizes * 1e-6);
    }
}

std::vector<float> product_of_fragments(cuda::Device& device, bool half, const std::vector<float>& a,
                                        const std::vector<float>& b, const std::vector<float>& d) {
  return in_any_order(device, [&](OnDevice& on) {
    auto result = d;
    float* const at = on(result);
    multiply_fragments(on.stream(), half, on(bits_of(half, a)), on(bits_of(half, b)), at);
    on.read(at, result);
    return result;
  });
}

}  // namespace

TEST_CASE("mma: products of fragments", "[mma]") {
  const auto device = test_device();
  if (device == nullptr) return;
  const bool half = GENERATE(false, true);
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto a = small_numbers(kM * kK, seed), b = small_numbers(kK * kN, seed + 100);
    const auto d = small_numbers(kM * kN, seed + 200);
    check_product(kN, a, b, d, product_of_fragments(*device, half, a, b, d));
  }
}

TEST_CASE("mma: one element at a time", "[mma]") {
  const auto device = test_device();
  if (device == nullptr) return;
  for (int k = 0; k < kK; ++k)
    for (int row = 0; row < kM; ++row) {
      std::vector<float> a(kM * kK), b(kK * kN);
      a[static_cast<size_t>(row * kK + k)] = 2;
      for (int column = 0; column < kN; ++column)
        b[static_cast<size_t>(k * kN + column)] = static_cast<float>(column + 1);
      const auto d = product_of_fragments(*device, false, a, b, std::vector<float>(kM * kN));
      for (int i = 0; i < kM * kN; ++i)
        REQUIRE(d[static_cast<size_t>(i)] == (i / kN == row ? 2 * static_cast<float>(i % kN + 1) : 0));
    }
}

TEST_CASE("mma: matrices from shared memory", "[mma]") {
  const auto device = test_device();
  if (device == nullptr) return;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto a = small_numbers(kM * kK, seed), b = small_numbers(kK * 16, seed + 100);
    const std::vector<float> zeros(kM * 16);
    check_product(16, a, b, zeros, in_any_order(*device, [&](OnDevice& on) {
                    auto result = zeros;
                    float* const at = on(result);
                    multiply_from_shared(on.stream(), on(bits_of(false, a)), on(bits_of(false, b)), at);
                    on.read(at, result);
                    return result;
                  }));
  }
}

#ifdef NMT_CUDA_EMULATION
using namespace nmt::cuda;
using Catch::Matchers::Contains;

namespace {

// y: what lies in shared memory after begins and waits.
__global__ void copy_groups(const uint32_t* x, uint32_t* y) {
  auto* room = shared_memory<uint32_t>();
  for (int i = 0; i < 3; ++i) {
    cp_async_16(room + i * 4, x + i * 4);
    cp_async_commit();
  }
  const auto note = [&](int to) {
    for (int i = 0; i < 3; ++i) y[to * 3 + i] = room[i * 4 + 3];
  };
  note(0);
  cp_async_wait<2>();
  note(1);
  cp_async_wait<1>();
  note(2);
  cp_async_wait<0>();
  note(3);
}

enum class Wrong { kMissingLane, kNotShared, kNotAligned, kBehind, kSource };
__global__ void wrong_use(Wrong wrong, const float* x) {
  unsigned m[4];
  float* room = shared_memory<float>();
  if (wrong == Wrong::kMissingLane && threadIdx.x != 3) ldmatrix_x4(m, room);
  if (wrong == Wrong::kNotShared) ldmatrix_x4(m, x);
  if (wrong == Wrong::kNotAligned) ldmatrix_x4(m, room + 1);
  if (wrong == Wrong::kBehind) cp_async_16(room + 8, x);
  if (wrong == Wrong::kSource) cp_async_16(room, x + 1);
}

}  // namespace

TEST_CASE("mma: float16", "[mma]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float x = emulation::from_f16(half);
    if (!std::isnan(x)) CHECK(emulation::to_f16(x) == half);
  }
  Random random(4);
  for (int i = 0; i < 10000; ++i) {
    const auto x =
        static_cast<float>((random.uniform() - 0.5) * std::ldexp(1.0, static_cast<int>(random.below(50)) - 30));
    CHECK(emulation::to_f16(x) == std::bit_cast<uint16_t>(static_cast<_Float16>(x)));
  }
  CHECK(emulation::from_f16(0x3c00) == 1);
  CHECK(emulation::from_f16(0xc500) == -5);
  CHECK(emulation::from_f16(0x7bff) == 65504);
  CHECK(emulation::from_f16(0x0001) == std::ldexp(1.f, -24));
  CHECK(emulation::from_f16(0x83ff) == -std::ldexp(1023.f, -24));
  CHECK(emulation::from_f16(0xfc00) == -INFINITY);
  CHECK(std::isnan(emulation::from_f16(0x7c01)));
}

TEST_CASE("mma: copies are there after the wait for their group", "[mma]") {
  alignas(16) uint32_t x[12];
  for (uint32_t i = 0; i < 12; ++i) x[i] = i;
  uint32_t y[12];
  emulation::set_thread_order(0);
  launch("copy_groups", nullptr, {.threads = 1, .shared = 48}, copy_groups, x, y);
  for (int waited = 0; waited < 4; ++waited)
    for (int i = 0; i < 3; ++i) CHECK(y[waited * 3 + i] == (i < waited ? x[i * 4 + 3] : 0x7fffffff));
  bool early = false;
  for (uint64_t seed = 1; seed < 10; ++seed) {
    emulation::set_thread_order(seed);
    launch("copy_groups", nullptr, {.threads = 1, .shared = 48}, copy_groups, x, y);
    early = early || y[0] == 3;
    CHECK(y[11] == 11);
  }
  emulation::set_thread_order(0);
  CHECK(early);
}

TEST_CASE("mma: wrong uses", "[mma]") {
  alignas(16) float x[8]{};
  const auto use = [&](Wrong wrong) { launch("use", nullptr, {.threads = 32, .shared = 32}, wrong_use, wrong, x); };
  CHECK_THROWS_WITH(use(Wrong::kMissingLane), Contains("thread 3") && Contains("ldmatrix_x4"));
  CHECK_THROWS_WITH(use(Wrong::kNotShared), Contains("kernel use, block (0, 0, 0), thread 0: ldmatrix_x4: "));
  CHECK_THROWS_WITH(use(Wrong::kNotAligned), Contains("no 16 aligned bytes"));
  CHECK_THROWS_WITH(use(Wrong::kBehind), Contains("no 16 aligned bytes"));
  CHECK_THROWS_WITH(use(Wrong::kSource), Contains("source is not aligned"));
}
#endif
