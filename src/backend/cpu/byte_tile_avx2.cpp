#include <cstring>

#include <immintrin.h>

#include "backend/cpu/byte_tile.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/prefetch.h"
#include "base/math.h"

#define NMT_AVX2 __attribute__((target("avx2")))

namespace nmt::cpu {
namespace {

constexpr int kLanes = 8, kColumns = kGroup, kVectors = kColumns / kLanes;

using Step = __m256i[kVectors];  // four bytes of each column

NMT_AVX2 [[gnu::always_inline]] inline void load(const std::byte* group, Step& to) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
    to[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(group + v * (kLine / kVectors)));
}

// Four bytes of a row of x.
NMT_AVX2 [[gnu::always_inline]] inline __m256i load(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

// Of the 16 columns of the group that begins so many bytes after the panel.
template <int R, bool kAhead>
NMT_AVX2 void multiply_group(const ByteTile& t, int64_t group, int32_t* to) {
  const std::byte* b = t.b + group;
  const int64_t eights = divide_up(t.k, 2 * kStepBytes), row_bytes = t.row_bytes;
  const uint8_t* const x = t.x;
  const Ahead ahead = t.ahead;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (int64_t i = 0; i < eights; ++i, b += 2 * kLine) {
    Step first, second;
    load(b, first);
    load(b + kLine, second);
    if constexpr (kAhead) {
      prefetch_far(ahead.share, group + 2 * i * ahead.bytes);
      prefetch_far(ahead.share, group + (2 * i + 1) * ahead.bytes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const uint8_t* const row = x + r * row_bytes + i * 2 * kStepBytes;
      const __m256i x_first = load(row), x_second = load(row + kStepBytes);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m256i fours =
            _mm256_add_epi16(_mm256_maddubs_epi16(x_first, first[v]), _mm256_maddubs_epi16(x_second, second[v]));
        sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(fours, ones));
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      _mm256_store_si256(reinterpret_cast<__m256i*>(to + r * kPanel + v * kLanes), sums[r][v]);
}

template <int R>
void multiply_tile(const ByteTile& t) {
  const auto multiply = t.ahead.share == nullptr ? multiply_group<R, false> : multiply_group<R, true>;
  for (int64_t first = 0; first < t.columns; first += kColumns) multiply(t, t.groups.offset_of(first), t.sums + first);
}

}  // namespace

const ByteTiles kAvx2ByteTiles = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                  multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

}  // namespace nmt::cpu
