#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/targets.h"
#include "base/philox.h"
#include "tests/catch.h"

// What the tests of the CPU kernels share. References are computed in float64 from the very values the kernel reads.
namespace nmt::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t kWidths[] = {1, 7, 33, 65, 511, 512, 513};

// The instruction sets that are both compiled and supported by this processor.
inline std::vector<int64_t> targets() {
  std::vector<int64_t> all;
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) all.push_back(rest & -rest);
  return all;
}

// Kernels run with one instruction set for the lifetime of this object.
class Target {
 public:
  explicit Target(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~Target() { hwy::SetSupportedTargetsForTest(0); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
};

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// The nearest bfloat16, ties to even, by comparing distances.
inline uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7FC0;
  const auto down = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);  // towards zero
  const auto up = static_cast<uint16_t>(down + 1);
  if (std::isinf(x)) return down;
  const double below = std::fabs(static_cast<double>(x)) - std::fabs(from_bf16(down));
  const double top = (up & 0x7FFF) == 0x7F80 ? std::ldexp(1.0, 128) : std::fabs(static_cast<double>(from_bf16(up)));
  const double above = top - std::fabs(static_cast<double>(x));
  if (below != above) return below < above ? down : up;
  return down % 2 == 0 ? down : up;
}

// Elements of type f32, bf16 or f16 in memory of exactly their size, so that sanitizers see every byte read beyond
// them.
class Array {
 public:
  Array(DType t, size_t n) : t_(t), size_(n), bytes_(n * size_of(t), 0xEE) {}
  Array(DType t, const std::vector<double>& values) : Array(t, values.size()) {
    for (size_t i = 0; i < size_; ++i) set(i, values[i]);
  }

  DType dtype() const { return t_; }
  size_t size() const { return size_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  const float* f32() const { return reinterpret_cast<const float*>(bytes_.data()); }
  float* f32() { return reinterpret_cast<float*>(bytes_.data()); }

  double operator[](size_t i) const {
    if (t_ == DType::kF32) {
      float x;
      std::memcpy(&x, &bytes_[4 * i], 4);
      return x;
    }
    uint16_t x;
    std::memcpy(&x, &bytes_[2 * i], 2);
    return t_ == DType::kF16 ? std::bit_cast<_Float16>(x) : from_bf16(x);
  }

  void set(size_t i, double value) {
    const auto x = static_cast<float>(value);
    const uint16_t half = t_ == DType::kF16 ? std::bit_cast<uint16_t>(static_cast<_Float16>(x)) : to_bf16(x);
    if (t_ == DType::kF32) {
      std::memcpy(&bytes_[4 * i], &x, 4);
    } else {
      std::memcpy(&bytes_[2 * i], &half, 2);
    }
  }

  std::vector<double> values() const {
    std::vector<double> v(size_);
    for (size_t i = 0; i < size_; ++i) v[i] = (*this)[i];
    return v;
  }

  bool operator==(const Array&) const = default;  // the same bits

 private:
  DType t_;
  size_t size_;
  std::vector<uint8_t> bytes_;
};

// Bell-shaped random numbers of mean `offset` and standard deviation `spread`.
inline std::vector<double> random_values(size_t n, uint64_t seed, double spread = 1, double offset = 0) {
  Random random(seed, 77);
  std::vector<double> v(n);
  for (double& x : v) {
    double sum = 4;  // of eight halves; one block of Philox makes them all
    for (int i = 0; i < 4; ++i) {
      const uint32_t halves = random.next();
      sum += (halves & 0xffff) + (halves >> 16);
    }
    x = offset + spread * std::sqrt(1.5) * (sum / 65536 - 4);
  }
  return v;
}

// The largest error in units of what is allowed: relative * |reference| + absolute, and half a unit in the last place
// of bf16 or float16 where results are rounded to it. At most 1 is right.
inline double worst_error(DType t, const std::vector<double>& results, const std::vector<double>& reference,
                          double relative, double absolute = 0) {
  relative += t == DType::kBF16 ? 0x1p-8 : t == DType::kF16 ? 0x1p-11 : 0;
  double worst = results.size() == reference.size() ? 0 : kInf;
  for (size_t i = 0; i < std::min(results.size(), reference.size()); ++i) {
    const double x = results[i], y = reference[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double error = std::fabs(x - y) / (relative * std::fabs(y) + absolute);
    worst = std::isnan(error) ? kInf : std::max(worst, error);
  }
  return worst;
}

inline double worst_error(DType t, const Array& results, const std::vector<double>& reference, double relative,
                          double absolute = 0) {
  return worst_error(t, results.values(), reference, relative, absolute);
}

// [0, n) in uneven pieces, one of them empty: f(begin, end).
template <class F>
void in_pieces(int64_t n, F f) {
  int64_t begin = 0;
  f(begin, begin);
  for (int64_t length = 1; begin < n; length = length * 2 + 1) {
    const int64_t end = std::min(n, begin + length);
    f(begin, end);
    begin = end;
  }
}

// The factors 0 or 1 / (1 - rate) of elements [0, n), from the definition of the mask.
inline std::vector<double> dropout_factors(const Dropout& d, int64_t n) {
  std::vector<double> factors(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto block = static_cast<uint64_t>(i / 8);
    const auto words =
        Philox4x32::generate({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), d.site, d.step},
                             {static_cast<uint32_t>(d.seed), static_cast<uint32_t>(d.seed >> 32)});
    const uint32_t lane = words[static_cast<size_t>(i % 8 / 2)] >> (i % 2 * 16) & 0xFFFF;
    const bool kept = lane >= static_cast<uint32_t>(std::lround(d.rate * 65536.0));
    factors[static_cast<size_t>(i)] = kept ? 1 / (1 - static_cast<double>(d.rate)) : 0;
  }
  return factors;
}

}  // namespace nmt::testing
