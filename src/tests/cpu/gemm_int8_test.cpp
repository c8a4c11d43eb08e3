// Products of bytes against float64: as exact as the bytes are, whatever the processor makes of them. Run once more by
// ctest with ONEDNN_MAX_CPU_ISA, so that each kind of processor's code is tested.
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_bytes.h"
#include "base/error.h"
#include "base/math.h"
#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

struct Size {
  int64_t m, n, k;
};
const Size kSizes[] = {{1, 1, 1},     {1, 7, 33},  {6, 64, 4},     {7, 65, 5},     {5, 33, 64},    {13, 130, 31},
                       {40, 513, 17}, {3, 600, 3}, {64, 300, 2},   {257, 64, 31},  {300, 1030, 9}, {0, 7, 5},
                       {7, 0, 5},     {7, 70, 0},  {33, 130, 200}, {50, 70, 1030}, {4, 130, 200}};

struct Product {
  DType tx, ty;
  Size size;
  bool bias, relu;
  Array x, w, b, y;

  Array run(ThreadPool& pool, const cpu::PackedMatrix& packed) const {
    Array result = y;
    cpu::multiply(pool, packed, size.m, tx, x.data(), ty, result.data(),
                  {bias ? b.f32() : nullptr, relu ? Activation::kRelu : Activation::kNone});
    return result;
  }
};

double at(const Array& a, int64_t row, int64_t width, int64_t column) {
  return a[static_cast<size_t>(row * width + column)];
}

// The largest sum of numbers of one sign among the fours of a column that AVX2 adds up in 16 bits.
template <class At>
double largest_of_fours(int64_t k, const At& number) {
  double largest = 0;
  for (int64_t begin = 0; begin < k; begin += 8)
    for (const int64_t first : {0, 2})
      for (const double sign : {-1.0, 1.0}) {
        double sum = 0;
        for (const int64_t i : {first, first + 1, first + 4, first + 5})
          if (begin + i < k) sum += std::max(0.0, sign * number(begin + i));
        largest = std::max(largest, sum);
      }
  return largest;
}

// Every element is as near as the rounding of x to 127 or more steps and of w to its steps allows, and it is the same
// for any number of threads.
void check_near(const Product& p) {
  const auto [m, n, k] = p.size;
  INFO(name_of(p.tx) << " to " << name_of(p.ty) << " [" << m << ", " << k << "] x [" << k << ", " << n << "]"
                     << (p.bias ? " bias" : "") << (p.relu ? " relu" : ""));
  ThreadPool one(1), three(3);
  cpu::PackedMatrix packed, again;
  packed.pack(one, DType::kI8, p.w.f32(), n, k, false);
  again.pack(three, DType::kI8, p.w.f32(), n, k, false);
  CHECK(packed.dtype() == DType::kI8);
  const Array result = p.run(one, packed);
  CHECK(p.run(three, again) == result);

  double worst = 0;
  for (int64_t r = 0; r < m; ++r) {
    double low = kInf, high = -kInf, sum_x = 0;
    for (int64_t i = 0; i < k; ++i) {
      low = std::min(low, at(p.x, r, k, i));
      high = std::max(high, at(p.x, r, k, i));
      sum_x += std::fabs(at(p.x, r, k, i));
    }
    for (int64_t c = 0; c < n; ++c) {
      double exact = 0, largest_w = 0, sum_w = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double w = at(p.w, c, k, i);
        exact += at(p.x, r, k, i) * w;
        largest_w = std::max(largest_w, std::fabs(w));
        sum_w += std::fabs(w);
      }
      double half_w = largest_w / 127 / 2;
      if (cpu::bounds_fours())
        half_w = std::max(half_w, largest_of_fours(k, [&](int64_t i) { return at(p.w, c, k, i); }) / 256 / 2);
      const double half_x = k == 0 ? 0 : (high - low) / 127 / 2;
      double allowed = half_x * sum_w + half_w * sum_x + half_x * half_w * static_cast<double>(k) + 1e-5;
      if (p.bias) exact += p.b[static_cast<size_t>(c)];
      if (p.relu) exact = std::max(exact, 0.0);
      if (p.ty == DType::kBF16) allowed += (std::fabs(exact) + allowed) / 256;
      const double error = std::fabs(at(result, r, n, c) - exact) / allowed;
      worst = std::isnan(error) ? kInf : std::max(worst, error);
    }
  }
  CHECK(worst <= 1);
}

Product random_product(DType tx, DType ty, Size s, int bits) {
  const auto count = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
  return {tx,
          ty,
          s,
          (bits & 1) != 0,
          (bits & 2) != 0,
          Array(tx, random_values(count(s.m, s.k), 1, 1, 0.3)),
          Array(DType::kF32, random_values(count(s.n, s.k), 2)),
          Array(DType::kF32, random_values(count(s.n, 1), 3)),
          Array(ty, random_values(count(s.m, s.n), 4))};
}

}  // namespace

TEST_CASE("products with weights of bytes", "[gemm]") {
  for (const Size& size : kSizes) {
    check_near(random_product(DType::kF32, DType::kF32, size, 0));
    check_near(random_product(DType::kBF16, DType::kBF16, size, 3));
    check_near(random_product(DType::kF32, DType::kBF16, size, 1));
  }
  for (int bits = 0; bits < 4; ++bits)
    for (const DType t : {DType::kF32, DType::kBF16}) check_near(random_product(t, t, {9, 150, 65}, bits));
}

TEST_CASE("NaN and infinities pass through products of bytes, with ReLU and without", "[gemm]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const bool relu : {false, true})
    for (const DType t : {DType::kF32, DType::kBF16}) {
      Product p = random_product(t, t, {9, 70, 6}, relu ? 3 : 1);
      p.b.set(0, std::numeric_limits<double>::quiet_NaN());
      p.b.set(1, kInfinity);
      p.b.set(69, -kInfinity);
      ThreadPool pool(1);
      cpu::PackedMatrix packed;
      packed.pack(pool, DType::kI8, p.w.f32(), 70, 6, false);
      const Array result = p.run(pool, packed);
      for (size_t i = 0; i < result.size(); ++i) {
        const size_t column = i % 70;
        if (column == 0) CHECK(std::isnan(result[i]));
        if (column == 1) CHECK(result[i] == kInfinity);
        if (column == 69) CHECK(result[i] == (relu ? 0 : -kInfinity));
        if (column > 1 && column < 69) CHECK(std::isfinite(result[i]));
      }
    }
}

TEST_CASE("a row with an element that is no number, or infinite, has no finite product of bytes", "[gemm]") {
  ThreadPool pool(1);
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const DType t : {DType::kF32, DType::kBF16})
      for (const int64_t at : {0, 1, 63, 64, 149}) {
        Product p = random_product(t, t, {9, 70, 150}, 0);
        p.x.set(static_cast<size_t>(4 * 150 + at), wrong);
        cpu::PackedMatrix packed;
        packed.pack(pool, DType::kI8, p.w.f32(), 70, 150, false);
        const Array result = p.run(pool, packed);
        for (size_t i = 0; i < result.size(); ++i) CHECK(std::isfinite(result[i]) == (i / 70 != 4));
      }
}

TEST_CASE("a row of numbers too small for their step's inverse has products of about zero", "[gemm]") {
  ThreadPool pool(1);
  Product p = random_product(DType::kF32, DType::kF32, {9, 70, 150}, 0);
  for (size_t i = 0; i < p.x.size(); ++i) p.x.set(i, i % 2 == 0 ? 0 : 1e-38);
  cpu::PackedMatrix packed;
  packed.pack(pool, DType::kI8, p.w.f32(), 70, 150, false);
  const Array result = p.run(pool, packed);
  for (size_t i = 0; i < result.size(); ++i) CHECK(std::fabs(result[i]) < 1e-34);
}

TEST_CASE("a row has the same products of bytes whatever rows stand beside it, subnormal ones, too", "[gemm]") {
  ThreadPool pool(1);
  constexpr int64_t kRows = 40, kColumns = 70, kWidth = 150;
  for (const DType t : {DType::kF32, DType::kBF16}) {
    Product p = random_product(t, t, {kRows, kColumns, kWidth}, 1);
    for (size_t i = 0; i < p.x.size(); i += 3) p.x.set(i, 0);
    for (size_t i = 0; i < static_cast<size_t>(kWidth); ++i) p.x.set(i, 0);  // the first row's products are the biases
    for (size_t c = 0; c < p.b.size(); ++c) p.b.set(c, (c % 2 == 0 ? 1e-39 : -1e-39) * static_cast<double>(c));
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kI8, p.w.f32(), kColumns, kWidth, false);
    const Array all = p.run(pool, packed);
    for (const int64_t m : {1, 6, 7, 39}) {
      p.size.m = m;
      const Array some = p.run(pool, packed);
      CHECK(std::memcmp(some.data(), all.data(), static_cast<size_t>(m * kColumns) * size_of(t)) == 0);
    }
  }
}

TEST_CASE("products of integers that bytes hold are exact", "[gemm]") {
  ThreadPool pool(2);
  for (const Size& s : kSizes) {
    if (s.k == 0) continue;
    Product p = random_product(DType::kF32, DType::kF32, s, 0);
    Random random(5);
    // x is 0 or 255, the ends of its bytes; each column of w has a 127, and others that leave its scale at one.
    const int most = cpu::bounds_fours() ? 43 : 127;
    for (size_t i = 0; i < p.x.size(); ++i) p.x.set(i, random.below(2) == 0 ? 0 : 255);
    for (size_t i = 0; i < p.w.size(); ++i)
      p.w.set(i, i % static_cast<size_t>(s.k) == 0
                     ? 127
                     : static_cast<double>(random.below(static_cast<uint64_t>(2 * most + 1))) - most);
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kI8, p.w.f32(), s.n, s.k, false);
    const Array result = p.run(pool, packed);
    double worst = 0;
    for (int64_t r = 0; r < s.m; ++r)
      for (int64_t c = 0; c < s.n; ++c) {
        double exact = 0;
        for (int64_t i = 0; i < s.k; ++i) exact += at(p.x, r, s.k, i) * at(p.w, c, s.k, i);
        worst = std::max(worst, std::fabs(at(result, r, s.n, c) - exact) / (1e-5 * std::fabs(exact) + 0.1));
      }
    INFO(s.m << " " << s.n << " " << s.k);
    CHECK(worst <= 1);
  }
}

TEST_CASE("the longest sums of products of bytes are exact, longer ones are refused", "[gemm]") {
  ThreadPool pool(1);
  constexpr int64_t kLongest = 66311;
  std::vector<float> x(kLongest, 255), w(kLongest + 1, 127);
  x[0] = 0;  // the others are the largest byte
  // Two of four are all that fours hold.
  const int each = cpu::bounds_fours() ? 2 : 1;
  for (size_t i = 0; i < w.size(); ++i)
    if (i % static_cast<size_t>(each) != 0) w[i] = 0;
  cpu::PackedMatrix packed;
  packed.pack(pool, DType::kI8, w.data(), 1, kLongest, false);
  float y = 0;
  cpu::multiply(pool, packed, 1, DType::kF32, x.data(), DType::kF32, &y);
  CHECK(y == Approx(255.0 * 127 * ((kLongest - 1) / each)).epsilon(1e-6));
  CHECK_THROWS_AS(packed.pack(pool, DType::kI8, w.data(), 1, kLongest + 1, false), UserError);
}

TEST_CASE("a row's product of bytes does not depend on other rows, nor on where columns are cut", "[gemm]") {
  ThreadPool pool(2);
  const Size s{70, 333, 37};
  const Product p = random_product(DType::kF32, DType::kF32, s, 0);
  cpu::PackedMatrix packed;
  packed.pack(pool, DType::kI8, p.w.f32(), s.n, s.k, false);
  const Array all = p.run(pool, packed);
  std::vector<float> y(static_cast<size_t>(s.n));
  constexpr int64_t kBlock = 2 * cpu::kPanel;
  cpu::Operand x;
  x.assign(packed, s.m, DType::kF32, p.x.data());
  for (int64_t r = 0; r < s.m; ++r) {
    cpu::multiply(pool, packed, 1, DType::kF32, p.x.f32() + r * s.k, DType::kF32, y.data());
    CHECK(std::equal(y.begin(), y.end(), all.f32() + r * s.n));
    for (int64_t begin = 0; begin < s.n; begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, s.n);
      cpu::multiply_block(packed, begin, end, x, r, 1, y.data());
      CHECK(std::equal(y.begin(), y.begin() + (end - begin), all.f32() + r * s.n + begin));
    }
  }
}

TEST_CASE("columns of weights as bytes", "[gemm]") {
  const Target target(GENERATE(from_range(targets())));
  const bool fours = GENERATE(false, true);
  const int kind = GENERATE(0, 1, 2, 3, 4);
  for (const int64_t width : kWidths) {
    INFO("fours " << fours << ", kind " << kind << ", width " << width);
    Array w(DType::kF32, random_values(static_cast<size_t>(3 * width), 1));
    for (size_t i = 0; i < w.size(); ++i) {
      if (kind == 1) w.set(i, 0.1);                           // of one sign
      if (kind == 2) w.set(i, i % 2 == 0 ? -3.01 : 2.99);     // rounding matters
      if (kind == 3) w.set(i, i % 8 == 0 ? 5 : 1e-3 * w[i]);  // nothing is bounded
      if (kind == 4) w.set(i, 1e-37 * w[i]);                  // too small for their step's inverse
    }
    std::vector<int8_t> q(static_cast<size_t>(3 * width));
    std::vector<float> scale(3), sum(3);
    cpu::quantise_weight({0, 3}, width, fours, w.f32(), q.data(), scale.data(), sum.data());
    for (int64_t c = 0; c < 3; ++c) {
      double largest = 0, total = 0, worst = 0;
      for (int64_t i = 0; i < width; ++i) {
        const int byte = q[static_cast<size_t>(c * width + i)];
        largest = std::max(largest, std::fabs(at(w, c, width, i)));
        total += byte;
        worst = std::max(worst, std::fabs(at(w, c, width, i) - static_cast<double>(scale[c]) * byte));
        CHECK(std::abs(byte) <= 127);
      }
      if (fours)
        CHECK(largest_of_fours(width, [&](int64_t i) { return static_cast<double>(q[c * width + i]); }) <= 258);
      if (kind == 4) continue;  // of about zero
      const double all = largest_of_fours(width, [&](int64_t i) { return at(w, c, width, i); });
      CHECK(scale[c] == Approx(fours ? std::max(largest / 127, all / 256) : largest / 127).epsilon(1e-5));
      CHECK(worst <= 0.5001 * scale[c]);
      CHECK(sum[c] == Approx(scale[c] * total).epsilon(1e-5));
    }
  }
}

TEST_CASE("rows as bytes") {
  const Target target(GENERATE(from_range(targets())));
  const DType t = GENERATE(DType::kF32, DType::kBF16);
  const int levels = GENERATE(127, 255);
  const int64_t multiple = GENERATE(4, 64);
  const double mean = GENERATE(-1.0, 40.0);  // all of one sign, too
  for (const int64_t width : kWidths) {
    const Array x(t, random_values(static_cast<size_t>(3 * width), 1, 2, mean));
    const int64_t stride = round_up(width, multiple);
    std::vector<uint8_t> q(static_cast<size_t>(3 * stride), 0xEE);
    cpu::RowScale scales[3];
    cpu::quantise_rows(t, {0, 3}, width, levels, x.data(), q.data(), stride, scales);
    double worst = 0;
    int largest = 0;
    for (int64_t r = 0; r < 3; ++r) {
      const auto* row = q.data() + r * stride;
      CHECK(std::ranges::count(row, row + width, 0) >= 1);  // the least
      for (int64_t i = 0; i < stride; ++i) {
        const int byte = row[i];
        largest = std::max(largest, byte);
        const double back = scales[r].low + static_cast<double>(scales[r].step) * byte;
        if (i >= width)
          CHECK(byte == 0);
        else
          worst = std::max(worst, std::fabs(back - at(x, r, width, i)) - scales[r].step * 0.5001);
      }
    }
    CHECK(worst <= 1e-6);
    CHECK(largest == (width > 1 ? levels : 0));
  }
}
