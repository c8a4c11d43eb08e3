#include "backend/cuda/mma.cuh"
#include "tests/cuda/mma_kernels.h"

namespace nmt::testing {
namespace {

using namespace cuda;

constexpr int kN = 8, kK = 16;

__device__ unsigned pair(uint16_t lower, uint16_t upper) { return lower | static_cast<unsigned>(upper) << 16; }

__global__ void multiply(bool half, const uint16_t* a, const uint16_t* b, float* d) {
  const int group = static_cast<int>(threadIdx.x) >> 2, in_group = static_cast<int>(threadIdx.x) % 4;
  uint16_t as[8], bs[4];
  for (int i = 0; i < 8; ++i) {
    const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    as[i] = a[row * kK + column];
  }
  for (int i = 0; i < 4; ++i) {
    const int row = in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    bs[i] = b[row * kN + group];
  }
  const auto place = [&](int i) { return (i < 2 ? group : group + 8) * kN + in_group * 2 + (i & 1); };
  float ds[4];
  for (int i = 0; i < 4; ++i) ds[i] = d[place(i)];
  const unsigned a_words[4] = {pair(as[0], as[1]), pair(as[2], as[3]), pair(as[4], as[5]), pair(as[6], as[7])};
  const unsigned b_words[2] = {pair(bs[0], bs[1]), pair(bs[2], bs[3])};
  if (half)
    mma_16x8x16<F16>(ds, a_words, b_words);
  else
    mma_16x8x16<Bf16>(ds, a_words, b_words);
  for (int i = 0; i < 4; ++i) d[place(i)] = ds[i];
}

__global__ void multiply_shared(const uint16_t* a, const uint16_t* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, in_group = lane % 4;
  auto* as = shared_memory<uint16_t>();
  uint16_t* bs = as + 256;
  cp_async_16(as + lane * 8, a + lane * 8);
  cp_async_commit();
  cp_async_16(bs + lane * 8, b + lane * 8);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();
  unsigned am[4], bm[4];
  ldmatrix_x4(am, as + lane % 16 * 16 + lane / 16 * 8);
  ldmatrix_x4_trans(bm, bs + lane % 16 * 16 + lane / 16 * 8);
  for (int right = 0; right < 2; ++right) {
    float ds[4]{};
    mma_16x8x16<Bf16>(ds, am, {bm[2 * right], bm[2 * right + 1]});
    for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 16 + right * 8 + in_group * 2 + i % 2] = ds[i];
  }
}

}  // namespace

void multiply_fragments(Stream stream, bool half, const uint16_t* a, const uint16_t* b, float* d) {
  launch("multiply", stream, {.threads = kWarp}, multiply, half, a, b, d);
}

void multiply_from_shared(Stream stream, const uint16_t* a, const uint16_t* b, float* d) {
  launch("multiply_shared", stream, {.threads = kWarp, .shared = 1024}, multiply_shared, a, b, d);
}

}  // namespace nmt::testing
