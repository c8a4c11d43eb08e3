#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace nmt {

// Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"): a bijection of a 128-bit counter
// under a 64-bit key. Stateless, so any element of a random stream is computed where it is needed.
struct Philox4x32 {
  static constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  static constexpr int kRounds = 10;

  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  static constexpr Counter generate(Counter c, Key k) {
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
      const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += kWeyl0;
      k[1] += kWeyl1;
    }
    return c;
  }
};

// A sequential generator over Philox: streams of one seed are independent.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next() {  // 32 random bits
    if (used_ == 4) {
      block_ = Philox4x32::generate({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32),
                                     static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                                    {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
      ++counter_;
      used_ = 0;
    }
    return block_[used_++];
  }

  // Uniform in [0, n), n > 0, without bias (rejection).
  uint64_t below(uint64_t n) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    for (;;) {
      const uint64_t high = next(), x = high << 32 | next();
      if (x < limit) return x % n;
    }
  }

  // Uniform in [0, 1) with 53 bits.
  double uniform() {
    const uint64_t high = next(), x = high << 32 | next();
    return static_cast<double>(x >> 11) * 0x1.0p-53;
  }

  template <class Range>
  void shuffle(Range& range) {  // Fisher and Yates
    for (uint64_t i = range.size(); i > 1; --i) std::swap(range[i - 1], range[below(i)]);
  }

 private:
  uint64_t seed_, stream_, counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace nmt
