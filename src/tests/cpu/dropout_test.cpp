#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

TEST_CASE("the dropout mask is the one of its definition, wherever a range begins and ends") {
  const Target target(GENERATE(from_range(targets())));
  const float rate = GENERATE(0.0f, 0.1f, 0.5f, 0.999f);
  const Dropout d{.rate = rate, .site = 7, .step = 123456, .seed = 0x0123456789ABCDEF};
  const auto factors = dropout_factors(d, 3000);
  for (const int64_t begin : {0, 1, 7, 8, 9, 1023, 1500}) {
    for (const int64_t length : {0, 1, 7, 33, 65, 511, 513, 1024, 1025, 1499}) {
      std::vector<uint8_t> mask(static_cast<size_t>(length), 2);
      cpu::dropout_mask(d, begin, begin + length, mask.data());
      int64_t wrong = 0;
      for (int64_t i = 0; i < length; ++i) {
        wrong += mask[static_cast<size_t>(i)] != (factors[static_cast<size_t>(begin + i)] != 0);
      }
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("the dropout mask beyond 2^35 elements uses the high word of the counter") {
  const Target target(GENERATE(from_range(targets())));
  const Dropout d{.rate = 0.5f, .site = 1, .step = 2, .seed = 3};
  const int64_t block = (int64_t{1} << 32) - 2;  // the low word wraps round within the range
  std::vector<uint8_t> mask(64);
  cpu::dropout_mask(d, 8 * block, 8 * block + 64, mask.data());
  for (int64_t b = 0; b < 8; ++b) {
    const auto index = static_cast<uint64_t>(block + b);
    const auto words =
        Philox4x32::generate({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 1, 2}, {3, 0});
    for (int64_t k = 0; k < 8; ++k) {
      const uint32_t lane = words[static_cast<size_t>(k / 2)] >> (k % 2 * 16) & 0xFFFF;
      CHECK(mask[static_cast<size_t>(8 * b + k)] == (lane >= 32768));
    }
  }
}

TEST_CASE("dropout keeps the expected share and scales it") {
  const Dropout d{.rate = 0.3f, .site = 4, .step = 5, .seed = 6};
  std::vector<uint8_t> mask(1000000);
  cpu::dropout_mask(d, 0, 1000000, mask.data());
  const auto kept = static_cast<double>(std::count(mask.begin(), mask.end(), 1));
  CHECK(kept / 1e6 == Approx(0.7).margin(0.002));  // 4 standard deviations
  // Among so many are lanes beside the threshold, which is no multiple of 2^-16.
  CHECK(std::ranges::equal(mask, dropout_factors(d, 1000000), {}, {}, [](double factor) { return factor != 0; }));
}

TEST_CASE("dropout of elements: reference, in place, and the same bits in any pieces") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const float rate = GENERATE(0.0f, 0.1f, 0.5f);
  const int64_t n = GENERATE(0, 1, 7, 33, 65, 511, 512, 513, 5001);
  const Dropout d{.rate = rate, .site = 9, .step = 1, .seed = 42};
  const Array x(t, random_values(static_cast<size_t>(n), 1));
  Array y(t, x.size());
  cpu::dropout(t, d, 0, n, x.data(), y.data());

  auto reference = x.values();
  const auto factors = dropout_factors(d, n);
  for (size_t i = 0; i < reference.size(); ++i) reference[i] *= factors[i];
  CHECK(worst_error(t, y, reference, 2e-7) <= 1);

  Array pieces = x;
  in_pieces(n, [&](int64_t begin, int64_t end) { cpu::dropout(t, d, begin, end, pieces.data(), pieces.data()); });
  CHECK(pieces == y);
}

TEST_CASE("what dropout drops is zero, even infinity and NaN") {
  const Target target(GENERATE(from_range(targets())));
  const Dropout d{.rate = 0.5f, .site = 0, .step = 0, .seed = 1};
  const auto factors = dropout_factors(d, 100);
  for (const double bad : {kInf, -kInf, kNaN}) {
    Array x(DType::kF32, std::vector<double>(100, bad));
    cpu::dropout(DType::kF32, d, 0, 100, x.data(), x.data());
    for (size_t i = 0; i < 100; ++i) CHECK((x[i] == 0) == (factors[i] == 0));
  }
}

}  // namespace
