#include "text/shuffle.h"

#include <bit>

#include "base/error.h"
#include "base/philox.h"

namespace nmt {
namespace {

// Large halves need four rounds; for domains of a few elements it takes 24 until all orders are equally likely.
constexpr uint32_t kRounds = 24;

uint32_t low_bits(int n) { return n == 32 ? UINT32_MAX : (uint32_t{1} << n) - 1; }

}  // namespace

Permutation::Permutation(uint64_t n, uint64_t seed, uint64_t stream) : n_(n), seed_(seed), stream_(stream) {
  const int bits = n <= 1 ? 0 : std::bit_width(n - 1);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

uint64_t Permutation::operator()(uint64_t i) const {
  check(i < n_, "position {} of a permutation of {}", i, n_);
  const Philox4x32::Key key{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
  const auto round = [&](uint32_t half, uint32_t number) {
    return Philox4x32::generate({half, number, static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                                key)[0];
  };
  const uint32_t left_mask = low_bits(left_bits_), right_mask = low_bits(right_bits_);
  do {
    auto left = static_cast<uint32_t>(i >> right_bits_);
    auto right = static_cast<uint32_t>(i) & right_mask;
    for (uint32_t k = 0; k < kRounds; k += 2) {
      right ^= round(left, k) & right_mask;
      left ^= round(right, k + 1) & left_mask;
    }
    i = static_cast<uint64_t>(left) << right_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace nmt
