#include "backend/cpu/attention_product.h"

#include <algorithm>
#include <array>

#include "backend/cpu/targets.h"
#include "base/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace nmt::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A block of kRows x kVectors of c is summed in registers: AVX-512 has 32 of them, AVX2 16; some hold a row of b and
// an element of a. The loops over them are unrolled early, else GCC keeps the sums in memory.
constexpr int kAccumulators = HWY_TARGET <= HWY_AVX3 ? 24 : 12;
constexpr int kMaxRows = 8;  // a pointer each
constexpr int kMaxVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
// By vectors of a block, less one: the rows whose sums there is room for.
constexpr int kAccumulatorRows[] = {kAccumulators, kAccumulators / 2, kAccumulators / 3, kAccumulators / 4};

template <int kRows, int kVectors>
void block(int64_t depth, const float* HWY_RESTRICT a, int64_t a_row, int64_t a_column, const float* HWY_RESTRICT b,
           int64_t b_row, float* HWY_RESTRICT c, int64_t c_row, bool add) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<decltype(d)> row[kVectors];
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) row[n] = hn::Load(d, b + k * b_row + n * lanes);
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const auto x = hn::Set(d, a[m * a_row + k * a_column]);
#pragma GCC unroll 4
      for (int n = 0; n < kVectors; ++n) sum[m][n] = hn::MulAdd(x, row[n], sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      float* to = c + m * c_row + n * lanes;
      hn::Store(add ? hn::Add(hn::Load(d, to), sum[m][n]) : sum[m][n], d, to);
    }
  }
}

using Block = void (*)(int64_t, const float*, int64_t, int64_t, const float*, int64_t, float*, int64_t, bool);

template <int kRows, int kVectors>
constexpr Block block_of() {
  if constexpr (kRows * kVectors <= kAccumulators) {
    return block<kRows, kVectors>;
  } else {
    return nullptr;
  }
}

template <int kVectors>
constexpr std::array<Block, kMaxRows> blocks_of() {
  return {block_of<1, kVectors>(), block_of<2, kVectors>(), block_of<3, kVectors>(), block_of<4, kVectors>(),
          block_of<5, kVectors>(), block_of<6, kVectors>(), block_of<7, kVectors>(), block_of<8, kVectors>()};
}

// n cut into the fewest parts that are no larger than `most`, nearly equal: with 8 at most, 9 are 5 and 4. Most often
// it is one part, which needs no division: divisions took longer than many a sentence's sums.
class Parts {
 public:
  Parts(int64_t n, int64_t most) : size_(n) {
    if (n <= most) return;
    const int64_t parts = divide_up(n, most);
    size_ = n / parts;
    larger_ = n % parts;
  }
  int64_t size(int64_t part) const { return size_ + (part < larger_); }
  int64_t largest() const { return size(0); }

 private:
  int64_t size_, larger_ = 0;  // so many parts have one more
};

}  // namespace

void multiply_small(const SmallProduct& p) {
  static constexpr std::array<Block, kMaxRows> kBlocks[] = {
    blocks_of<1>(),
    blocks_of<2>(),
#if HWY_TARGET <= HWY_AVX3
    blocks_of<3>(),
    blocks_of<4>(),
#endif
  };
  if (p.rows == 0 || p.vectors == 0) return;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t widest = Parts(p.vectors, kMaxVectors).largest();
  const Parts row_parts(p.rows, std::min<int64_t>(kMaxRows, kAccumulatorRows[widest - 1]));
  for (int64_t begin = 0, i = 0; begin < p.rows; ++i) {
    const int64_t rows = row_parts.size(i), end = begin + rows;
    int64_t first = 0, last = p.depth, vectors = p.vectors;
    if (p.triangle == Triangle::kOutput) vectors = std::min(vectors, divide_up(p.diagonal + end, lanes));
    if (p.triangle == Triangle::kLower) last = std::min(last, p.diagonal + end);
    if (p.triangle == Triangle::kUpper) first = std::clamp<int64_t>(begin - p.diagonal, 0, last);
    const Parts vector_parts(vectors, widest);
    for (int64_t n = 0, j = 0; n < vectors; ++j) {
      const int64_t width = vector_parts.size(j);
      kBlocks[width - 1][rows - 1](last - first, p.a + begin * p.a_row + first * p.a_column, p.a_row, p.a_column,
                                   p.b + first * p.b_row + n * lanes, p.b_row, p.c + begin * p.c_row + n * lanes,
                                   p.c_row, p.add);
      n += width;
    }
    begin = end;
  }
}

}  // namespace nmt::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
