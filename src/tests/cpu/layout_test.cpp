#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

TEST_CASE("float32 to bfloat16 rounds to nearest even for every upper half; NaN stays NaN") {
  const Target target(GENERATE(from_range(targets())));
  std::vector<float> x;
  for (uint32_t high = 0; high < 65536; high += 3) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      x.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::vector<uint16_t> y(x.size());
  cpu::convert(DType::kF32, x.data(), DType::kBF16, y.data(), static_cast<int64_t>(x.size()));
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    wrong += std::isnan(x[i]) ? !std::isnan(from_bf16(y[i])) : y[i] != to_bf16(x[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16 and float16 survive a trip to float32, and equal types are copied") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kBF16, DType::kF16);
  std::vector<uint16_t> x(65536), back(65536);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(x.size());
  cpu::convert(t, x.data(), DType::kF32, wide.data(), 65536);
  cpu::convert(DType::kF32, wide.data(), t, back.data(), 65536);
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    wrong += std::isnan(wide[i]) ? false : back[i] != x[i];
    if (t == DType::kBF16)
      wrong += std::bit_cast<uint32_t>(wide[i]) != static_cast<uint32_t>(i) << 16 && !std::isnan(wide[i]);
  }
  CHECK(wrong == 0);
  if (t == DType::kF16) {
    CHECK(wide[0x3C00] == 1);
    CHECK(wide[0x7BFF] == 65504);
    CHECK(wide[0x0001] == std::ldexp(1.0f, -24));
  }
  std::vector<uint16_t> copy(x.size());
  cpu::convert(t, x.data(), t, copy.data(), 65536);
  CHECK(copy == x);
}

TEST_CASE("conversions write exactly n elements") {
  const Target target(GENERATE(from_range(targets())));
  const size_t n = GENERATE(0, 1, 7, 33, 65, 511, 512, 513);
  const Array x(DType::kF32, random_values(n, 1));
  Array y(DType::kBF16, n), z(DType::kF32, n);  // as large as n: sanitizers see any excess
  cpu::convert(DType::kF32, x.data(), DType::kBF16, y.data(), static_cast<int64_t>(n));
  CHECK(y == Array(DType::kBF16, x.values()));
  cpu::convert(DType::kBF16, y.data(), DType::kF32, z.data(), static_cast<int64_t>(n));
  CHECK(z.values() == y.values());

  std::vector<uint16_t> half(n);
  Array direct(DType::kF32, n);
  cpu::convert(DType::kBF16, y.data(), DType::kF16, half.data(), static_cast<int64_t>(n));
  cpu::convert(DType::kF16, half.data(), DType::kF32, direct.data(), static_cast<int64_t>(n));
  CHECK(worst_error(DType::kF32, direct, y.values(), 1.0 / 2048, 1e-7) <= 1);
}

TEST_CASE("types without arithmetic are refused") {
  float x = 0;
  int32_t y = 0;
  CHECK_THROWS_AS(cpu::convert(DType::kF32, &x, DType::kI32, &y, 1), std::logic_error);
  CHECK_THROWS_AS(cpu::relu(DType::kI32, 0, 1, &y, &y), std::logic_error);
}

TEST_CASE("transpose moves every element of its range and touches no other") {
  const Target target(GENERATE(from_range(targets())));
  const int64_t rows = GENERATE(0, 1, 7, 31, 32, 33, 65, 100, 300);
  const int64_t columns = GENERATE(0, 1, 7, 8, 33, 64, 65, 130);
  const int64_t ldx = columns + 2, ldy = rows + 3;
  Array x(DType::kF32, static_cast<size_t>(rows * ldx));
  for (size_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i % 251));
  Array y(DType::kF32, std::vector<double>(static_cast<size_t>(columns * ldy), -1)), expected = y;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      expected.set(static_cast<size_t>(c * ldy + r), x[static_cast<size_t>(r * ldx + c)]);
  cpu::transpose(rows, columns, x.f32(), ldx, y.f32(), ldy);
  CHECK(y == expected);
}

TEST_CASE("the instruction set in use has a name") {
  for (const int64_t each : targets()) {
    const Target target(each);
    CHECK(std::string(cpu::instruction_set()) == hwy::TargetName(each));
  }
}

}  // namespace
