// Matrix products against float64, for sizes around every block that they are cut into.
#include "backend/cpu/gemm.h"

#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>

#include <omp.h>
#include <sys/mman.h>

#include "backend/cpu/amx.h"
#include "backend/cpu/products.h"
#include "base/log.h"
#include "tests/compute_types.h"
#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using namespace nmt::testing;
using cpu::Held;

namespace {

using Values = std::vector<double>;

// A sum of products and, element by element, the sum of their sizes: what rounding errors are measured against.
struct Sums {
  Values value, size;
};

double rounding(DType t) { return t == DType::kBF16 ? 1.0 / 256 : 0; }

// Every element is within float32's error of a sum of products (and half a unit in the last place of its type).
void check_product(DType ty, const Array& y, const Sums& reference) {
  REQUIRE(y.size() == reference.value.size());
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double allowed = 1e-6 * reference.size[i] + rounding(ty) * std::fabs(reference.value[i]) + 1e-30;
    const double error = std::fabs(y[i] - reference.value[i]) / allowed;
    worst = std::isnan(error) ? kInf : std::max(worst, error);
  }
  CHECK(worst <= 1);
}

struct Size {
  int64_t m, n, k;
};

// x [m, k] * B [k, n], B = w^T or w; y += and so on as the epilogue says.
struct Product {
  DType t, ty;
  Size size;
  bool transposed = false, bias = false, relu = false;
  Held held = Held::kNothing;
  Array x, w, b, y;

  Product(DType type, DType result, Size s, bool transpose, bool with_bias, bool with_relu,
          Held earlier = Held::kNothing)
      : t(type),
        ty(result),
        size(s),
        transposed(transpose),
        bias(with_bias),
        relu(with_relu),
        held(earlier),
        x(t, random_values(static_cast<size_t>(s.m * s.k), 1)),
        // Representable in t: packing loses nothing.
        w(DType::kF32, Array(t, random_values(static_cast<size_t>(s.n * s.k), 2)).values()),
        b(DType::kF32, random_values(static_cast<size_t>(s.n), 3)),
        y(ty, random_values(static_cast<size_t>(s.m * s.n), 4)) {}

  Sums reference() const {
    const auto [m, n, k] = size;
    const Values xs = x.values(), ws = w.values(), bs = b.values();
    Sums sums{y.values(), {}};
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t r = i / n, c = i % n;
      double& value = sums.value[static_cast<size_t>(i)];
      const bool blocked = held == Held::kRelu && !(value > 0);
      if (held != Held::kAddend) value = 0;
      double extent = std::fabs(value);
      if (bias) value += bs[static_cast<size_t>(c)];
      if (bias) extent += std::fabs(bs[static_cast<size_t>(c)]);
      for (int64_t j = 0; j < k; ++j) {
        const double p =
            xs[static_cast<size_t>(r * k + j)] * ws[static_cast<size_t>(transposed ? j * n + c : c * k + j)];
        value += p;
        extent += std::fabs(p);
      }
      if (relu) value = std::max(value, 0.0);
      if (blocked) value = 0;
      sums.size.push_back(extent);
    }
    return sums;
  }

  cpu::Epilogue epilogue() const {
    return {bias ? b.f32() : nullptr, relu ? Activation::kRelu : Activation::kNone, held};
  }

  Array run(ThreadPool& pool, const cpu::PackedMatrix& packed) const {
    Array result = y;
    cpu::multiply(pool, packed, size.m, t, x.data(), ty, result.data(), epilogue());
    return result;
  }

  // As one task: of all rows and columns.
  Array run_at_once(const cpu::PackedMatrix& packed) const {
    Array result = y;
    packed.layout().multiply(0, size.n, size.m, x.data(), packed.data(), ty, result.data(), size.n, epilogue());
    return result;
  }

  void check() const {
    INFO(name_of(t) << " to " << name_of(ty) << " [" << size.m << ", " << size.k << "] x [" << size.k << ", " << size.n
                    << "]" << (transposed ? " transposed" : "") << (bias ? " bias" : "") << (relu ? " relu" : "")
                    << (held == Held::kAddend ? " added"
                        : held == Held::kRelu ? " gradient of relu"
                                              : ""));
    ThreadPool one(1), two(2), three(3);
    cpu::PackedMatrix packed;
    packed.pack(one, t, w.f32(), size.n, size.k, transposed);
    CHECK(packed.n() == size.n);
    CHECK(packed.k() == size.k);
    CHECK(packed.dtype() == t);
    const Array result = run(one, packed);
    check_product(ty, result, reference());
    CHECK(run_at_once(packed) == result);
    for (ThreadPool* pool : {&two, &three}) {
      cpu::PackedMatrix again;
      again.pack(*pool, t, w.f32(), size.n, size.k, transposed);
      CHECK(run(*pool, again) == result);
    }
  }
};

}  // namespace

TEST_CASE("products with packed matrices", "[gemm]") {
  if (!cpu::has_amx()) log::warn("SKIPPED: products by AMX: this processor has none, or it is hidden");
  const Size sizes[] = {{1, 1, 1},      {1, 7, 33},     {7, 33, 65},    {33, 65, 7},      {65, 1, 33},
                        {33, 7, 1},     {2, 300, 5},    {3, 520, 33},   {40, 777, 17},    {256, 256, 9},
                        {257, 64, 31},  {300, 513, 3},  {70, 130, 40},  {31, 600, 512},   {530, 5, 65},
                        {20, 70, 1100}, {260, 9, 2050}, {7, 600, 1040}, {290, 530, 1024}, {40, 40, 544}};
  for (const DType t : compute_types())
    for (const Size& size : sizes)
      for (const bool transposed : {false, true}) {
        Product(t, t, size, transposed, false, false).check();
        Product(t, DType::kF32, size, transposed, true, true).check();
        Product(t, t, size, transposed, false, false, Held::kAddend).check();
        Product(t, t, size, transposed, false, false, Held::kRelu).check();
      }
  for (const Held held : {Held::kNothing, Held::kAddend, Held::kRelu})
    Product(DType::kF32, DType::kBF16, {70, 130, 140}, false, true, true, held).check();
  for (const DType t : compute_types())
    for (const Held held : {Held::kNothing, Held::kAddend, Held::kRelu})
      for (int bits = 0; bits < 4; ++bits)
        for (const DType ty : {t, DType::kF32})
          for (const Size& size : {Size{9, 33, 65}, Size{1, 600, 7}, Size{33, 600, 66}})
            Product(t, ty, size, false, (bits & 1) != 0, (bits & 2) != 0, held).check();
}

TEST_CASE("NaN and infinities pass through products, with ReLU and without", "[gemm]") {
  constexpr int64_t kM = 9, kN = 70, kK = 6;
  for (const DType t : compute_types()) {
    for (const bool relu : {false, true})
      for (const DType ty : {t, DType::kF32}) {
        Product product(t, ty, {kM, kN, kK}, false, false, relu);
        Values x = product.x.values();
        x[0] = std::numeric_limits<double>::quiet_NaN();
        x[kK] = std::numeric_limits<double>::infinity();
        product.x = Array(t, x);
        ThreadPool pool(1);
        cpu::PackedMatrix packed;
        packed.pack(pool, t, product.w.f32(), kN, kK, false);
        const Values y = product.run(pool, packed).values();
        for (size_t i = 0; i < kN; ++i) {
          const double infinite = x[kK] * product.w[i * kK];
          CHECK(std::isnan(y[i]));
          CHECK(y[kN + i] == (relu ? std::max(infinite, 0.0) : infinite));
        }
        for (size_t i = 2 * kN; i < y.size(); ++i) CHECK(std::isfinite(y[i]));
      }
  }
}

TEST_CASE("float32 loses nothing where it is multiplied in parts", "[gemm]") {
  // One product a sum, of any exponents: rounded once, and what is left out of it is less. (Sums of products are
  // checked above, to a bound that holds for the order of any sum.)
  constexpr int64_t kM = 40, kN = 70;
  for (const int64_t k : {1, 33}) {
    Product product(DType::kF32, DType::kF32, {kM, kN, k}, true, false, false);
    Values x(kM * static_cast<size_t>(k)), w(kN * static_cast<size_t>(k));
    const Values xs = random_values(kM, 5), ws = random_values(kN, 6);
    for (size_t r = 0; r < kM; ++r)
      x[(r + 1) * static_cast<size_t>(k) - 1] = std::ldexp(xs[r], static_cast<int>(r) - 20);
    for (size_t c = 0; c < kN; ++c)
      w[static_cast<size_t>(k - 1) * kN + c] = std::ldexp(ws[c], static_cast<int>(c) - 35);
    product.x = Array(DType::kF32, x);
    product.w = Array(DType::kF32, w);
    ThreadPool pool(1);
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kF32, product.w.f32(), kN, k, true);
    const Values y = product.run(pool, packed).values(), expected = product.reference().value;
    for (size_t i = 0; i < y.size(); ++i)
      REQUIRE(std::fabs(y[i] - expected[i]) <= std::ldexp(std::fabs(expected[i]), -22));
  }
}

TEST_CASE("numbers that have no parts of bf16 touch what they are multiplied with and nothing else", "[gemm]") {
  // Infinities, NaN, the largest numbers and the least, in x and B, in the first rows, columns and steps and in later
  // ones.
  constexpr int64_t kM = 300, kN = 600, kK = 300;
  const double nan = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<float>::max();
  ThreadPool pool(2);
  for (const Held held : {Held::kNothing, Held::kAddend}) {
    Product product(DType::kF32, DType::kF32, {kM, kN, kK}, true, true, false, held);
    Values x = product.x.values(), w = product.w.values();
    x[5 * kK + 3] = kInf;
    x[40 * kK + 299] = nan;
    x[290 * kK + 130] = most;
    x[100 * kK + 27] = 1.36236e-34;  // whose last part is too small for bf16, as is all of the next
    x[101 * kK + 29] = -1.17305e-39;
    w[2 * kN + 580] = -kInf;
    w[290 * kN + 8] = most;
    w[130 * kN + 8] = x[290 * kK + 290] = 0.25;  // where these two meet, their sum is no overflow
    x[5 * kK + 290] = w[130 * kN + 580] = 0.25;  // and where they meet infinities, they become none of the other sign
    product.x = Array(DType::kF32, x);
    product.w = Array(DType::kF32, w);
    const Sums sums = product.reference();
    const auto check_all = [&](const Values& y) {
      for (size_t i = 0; i < y.size(); ++i) {
        INFO("row " << i / kN << ", column " << i % kN);
        const double expected = sums.value[i];
        if (std::isnan(expected))
          REQUIRE(std::isnan(y[i]));
        else if (std::fabs(expected) > most)
          REQUIRE(y[i] == std::copysign(kInf, expected));
        else
          REQUIRE(std::fabs(y[i] - expected) <= 1e-6 * sums.size[i]);
      }
    };
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kF32, product.w.f32(), kN, kK, true);
    check_all(product.run(pool, packed).values());
    if (held == Held::kNothing) continue;
    // The gradient of a weight: x^T is dy, and the sums are added to what y and the bias make.
    Values columns(static_cast<size_t>(kM * kK)), before = product.y.values();
    for (size_t r = 0; r < kM; ++r)
      for (size_t j = 0; j < kK; ++j) columns[j * kM + r] = x[r * kK + j];
    for (size_t i = 0; i < before.size(); ++i) before[i] += product.b[i % kN];
    const Array dy(DType::kF32, columns);
    Array dw(DType::kF32, before);
    cpu::multiply_transposed(pool, DType::kF32, kK, kM, kN, dy.data(), product.w.data(), dw.f32());
    check_all(dw.values());
  }
}

namespace {

// Pages that end where memory ends that may be read: a byte further is a fault. (Sanitizers do not see what tiles of
// AMX load.)
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t bytes) : bytes_(bytes), pages_((bytes + kPage - 1) / kPage * kPage) {
    begin_ = static_cast<std::byte*>(
        mmap(nullptr, pages_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(begin_ != MAP_FAILED);
    REQUIRE(mprotect(begin_ + pages_, kPage, PROT_NONE) == 0);
  }
  ~GuardedBytes() { munmap(begin_, pages_ + kPage); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::byte* data() const { return begin_ + pages_ - bytes_; }

 private:
  static constexpr size_t kPage = 1 << 16;
  size_t bytes_, pages_;
  std::byte* begin_;
};

}  // namespace

TEST_CASE("products read and write nothing past the ends of x and y", "[gemm]") {
  ThreadPool pool(1);
  for (const DType t : compute_types())
    for (const DType packed_type : {t, DType::kI8})
      for (const Size& size : {Size{1, 7, 6}, Size{17, 577, 40}, Size{33, 612, 1030}, Size{40, 576, 64}}) {
        INFO(name_of(t) << " by " << name_of(packed_type) << " [" << size.m << ", " << size.k << "]");
        const Product product(t, t, size, false, false, false);
        cpu::PackedMatrix packed;
        packed.pack(pool, packed_type, product.w.f32(), size.n, size.k, false);
        const auto bytes = [&](int64_t columns) { return static_cast<size_t>(size.m * columns) * size_of(t); };
        const GuardedBytes x(bytes(size.k)), y(bytes(size.n));
        std::memcpy(x.data(), product.x.data(), bytes(size.k));
        cpu::multiply(pool, packed, size.m, t, x.data(), t, y.data());
        Array result = product.y;
        cpu::multiply(pool, packed, size.m, t, product.x.data(), t, result.data());
        CHECK(std::memcmp(y.data(), result.data(), bytes(size.n)) == 0);
      }
  for (const DType t : compute_types())
    for (const auto& [m, n, k] : {Size{33, 40, 70}, Size{64, 32, 64}, Size{100, 300, 600}}) {
      INFO("gradient in " << name_of(t) << ", dy [" << m << ", " << n << "], x [" << m << ", " << k << "]");
      const Array dy(t, random_values(static_cast<size_t>(m * n), 1)),
          x(t, random_values(static_cast<size_t>(m * k), 2));
      const GuardedBytes guarded_dy(dy.size() * size_of(t)), guarded_x(x.size() * size_of(t)),
          guarded_dw(static_cast<size_t>(n * k) * sizeof(float));
      std::memcpy(guarded_dy.data(), dy.data(), dy.size() * size_of(t));
      std::memcpy(guarded_x.data(), x.data(), x.size() * size_of(t));
      Array dw(DType::kF32, Values(static_cast<size_t>(n * k)));
      auto* result = reinterpret_cast<float*>(guarded_dw.data());
      std::fill_n(result, n * k, 0.f);
      cpu::multiply_transposed(pool, t, m, n, k, guarded_dy.data(), guarded_x.data(), result);
      cpu::multiply_transposed(pool, t, m, n, k, dy.data(), x.data(), dw.f32());
      CHECK(std::memcmp(result, dw.data(), static_cast<size_t>(n * k) * sizeof(float)) == 0);
    }
}

TEST_CASE("products of nothing", "[gemm]") {
  for (const DType t : compute_types())
    for (const Size& size :
         {Size{0, 7, 5}, Size{7, 0, 5}, Size{0, 7, 6}, Size{7, 0, 6}, Size{0, 0, 0}, Size{7, 5, 0}, Size{1, 600, 0}}) {
      Product(t, t, size, false, false, false).check();  // k = 0: zeros
      Product(t, t, size, true, false, false, Held::kAddend).check();
      Product(t, t, size, false, false, false, Held::kRelu).check();
      Product(t, t, size, false, true, true).check();
    }
}

TEST_CASE("matrices of equal sizes in different layouts do not meet", "[gemm]") {
  // The last panel of a wide matrix is as large as a whole narrow one; both orders, each in its own depth.
  for (const DType t : compute_types())
    for (const int64_t last : {1, 3, 16, 30, 44, 48, 64, 100})
      for (const bool narrow_first : {false, true}) {
        const int64_t k = 40 + last + (narrow_first ? 200 : 0);
        for (int pass = 0; pass < 2; ++pass) {
          const bool narrow = (pass == 0) == narrow_first;
          for (const int64_t m : {2, 8, 16})
            Product(t, t, {m, narrow ? last : 512 + last, k}, false, false, false).check();
        }
      }
}

TEST_CASE("a row's product does not depend on other rows", "[gemm]") {
  ThreadPool pool(2);
  for (const DType t : compute_types())
    for (const Size& s : {Size{300, 97, 333}, Size{70, 600, 40}, Size{33, 64, 1100}}) {
      const Product p(t, t, s, false, true, false);
      cpu::PackedMatrix packed;
      packed.pack(pool, t, p.w.f32(), s.n, s.k, false);
      const Array all = p.run(pool, packed);
      const auto row = [&](const Array& x, int64_t width, int64_t r) {
        return static_cast<const std::byte*>(x.data()) + r * width * static_cast<int64_t>(size_of(t));
      };
      for (const int64_t rows : {1, 2, 7, 31}) {
        INFO(name_of(t) << ", " << rows << " of " << s.m << " rows, depth " << s.k);
        Array some(t, static_cast<size_t>(rows * s.n));
        for (int64_t first = 0; first + rows <= s.m; first += rows) {
          cpu::multiply(pool, packed, rows, t, row(p.x, s.k, first), t, some.data(), p.epilogue());
          CHECK(std::memcmp(some.data(), row(all, s.n, first), some.size() * size_of(t)) == 0);
        }
      }
    }
}

TEST_CASE("a packed matrix is packed anew", "[gemm]") {
  ThreadPool pool(2);
  for (const DType t : compute_types()) {
    cpu::PackedMatrix packed;
    for (const Size& size : {Size{5, 300, 33}, Size{5, 7, 9}, Size{5, 600, 65}, Size{5, 600, 65}}) {
      const Product product(t, t, size, false, true, false);
      packed.pack(pool, t, product.w.f32(), size.n, size.k, false);
      check_product(t, product.run(pool, packed), product.reference());
      CHECK(packed.bytes() >= size.n * size.k * static_cast<int64_t>(size_of(t)));
    }
  }
}

TEST_CASE("a matrix is packed both ways as each way alone", "[gemm]") {
  // Into memory that held NaN before: what fills up panels must be zeros, and columns of NaN do not touch others.
  ThreadPool pool(2);
  for (const DType t : compute_types())
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                               {2, 2},
                               {64, 64},
                               {70, 34},
                               {34, 66},
                               {65, 33},
                               {7, 130},
                               {300, 96},
                               {130, 257}}) {
      INFO(name_of(t) << " [" << n << ", " << k << "]");
      const Array w(DType::kF32, Array(t, random_values(static_cast<size_t>(n * k), 2)).values());
      const std::vector<float> nan(384 * 384, std::nanf(""));
      cpu::PackedMatrix both[2], alone[2];
      cpu::PackedMatrix::pack_both(pool, t, nan.data(), 384, 384, both[0], both[1]);
      cpu::PackedMatrix::pack_both(pool, t, w.f32(), n, k, both[0], both[1]);
      alone[0].pack(pool, t, w.f32(), n, k, false);
      alone[1].pack(pool, t, w.f32(), k, n, true);
      for (const bool transposed : {false, true}) {
        const cpu::PackedMatrix &one = both[transposed], &other = alone[transposed];
        REQUIRE(one.bytes() == other.bytes());
        CHECK(std::memcmp(one.data(), other.data(), static_cast<size_t>(one.bytes())) == 0);
        const Product product(t, t, {35, one.n(), one.k()}, transposed, false, false);  // its w is the same numbers
        check_product(t, product.run(pool, one), product.reference());
      }
    }
}

TEST_CASE("packed elements are rounded to nearest even", "[gemm]") {
  if (!cpu::multiplies_bf16()) {
    log::warn("SKIPPED: products of bf16: this processor has none");
    return;
  }
  // Times one, which adds nothing.
  constexpr int64_t kN = 70, kK = 34;
  ThreadPool pool(1);
  Values numbers = random_values(kN * kK, 1), ones(kK * kK);
  for (size_t i = 0; i < 40; ++i) numbers[i] = (i % 2 == 0 ? 1 : -1) * (1 + static_cast<double>(i + 1) / 256);  // ties
  for (size_t i = 0; i < kK; ++i) ones[i * (kK + 1)] = 1;
  Array w(DType::kF32, numbers);
  const Array x(DType::kBF16, ones);
  const Values expected = Array(DType::kBF16, w.values()).values();
  for (const bool transposed : {false, true}) {
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kBF16, w.f32(), kN, kK, transposed);
    Array y(DType::kF32, Values(kK * kN));
    cpu::multiply(pool, packed, kK, DType::kBF16, x.data(), DType::kF32, y.data());
    for (size_t i = 0; i < kK; ++i)
      for (size_t c = 0; c < kN; ++c) REQUIRE(y[i * kN + c] == expected[transposed ? i * kN + c : c * kK + i]);
  }
  for (const uint32_t nan : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x7F800001u}) {  // stays one
    w.f32()[0] = std::bit_cast<float>(nan);
    cpu::PackedMatrix packed;
    packed.pack(pool, DType::kBF16, w.f32(), kN, kK, false);
    Array y(DType::kF32, Values(kK * kN));
    cpu::multiply(pool, packed, kK, DType::kBF16, x.data(), DType::kF32, y.data());
    CHECK(std::isnan(y[0]));
  }
}

TEST_CASE("gradients of weights", "[gemm]") {
  const Size sizes[] = {{0, 7, 5},    {1, 1, 1},      {7, 33, 65},      {64, 16, 16},   {65, 7, 33},   {33, 1, 7},
                        {9, 300, 65}, {70, 65, 270},  {1024, 5, 9},     {4200, 300, 3}, {1030, 33, 7}, {2100, 17, 33},
                        {5, 1030, 3}, {70, 260, 300}, {1025, 66, 1000}, {600, 1030, 70}};
  for (const DType t : compute_types())
    for (const auto& [m, n, k] : sizes) {
      INFO(name_of(t) << " dy [" << m << ", " << n << "], x [" << m << ", " << k << "]");
      const Array dy(t, random_values(static_cast<size_t>(m * n), 1)),
          x(t, random_values(static_cast<size_t>(m * k), 2));
      const Array before(DType::kF32, random_values(static_cast<size_t>(n * k), 3));
      Sums sums{before.values(), {}};
      const Values dys = dy.values(), xs = x.values();
      for (double& v : sums.value) sums.size.push_back(std::fabs(v));
      for (int64_t r = 0; r < m; ++r)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < k; ++j) {
            const double p = dys[static_cast<size_t>(r * n + i)] * xs[static_cast<size_t>(r * k + j)];
            sums.value[static_cast<size_t>(i * k + j)] += p;
            sums.size[static_cast<size_t>(i * k + j)] += std::fabs(p);
          }
      std::vector<Array> results;
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        Array dw = before;
        cpu::multiply_transposed(pool, t, m, n, k, dy.data(), x.data(), dw.f32());
        results.push_back(dw);
      }
      check_product(DType::kF32, results[0], sums);
      CHECK(results[1] == results[0]);
      CHECK(results[2] == results[0]);
    }
}

TEST_CASE("plain products", "[gemm]") {
  for (const DType t : compute_types())
    for (const auto& [m, n, k] : {Size{1, 1, 1},
                                  {7, 33, 65},
                                  {33, 65, 7},
                                  {65, 1, 33},
                                  {1, 33, 7},
                                  {33, 7, 1},
                                  {0, 5, 7},
                                  {5, 0, 7},
                                  {5, 7, 0}})
      for (int bits = 0; bits < 4; ++bits) {
        const bool ta = (bits & 1) != 0, tb = (bits & 2) != 0;
        INFO(name_of(t) << " [" << m << ", " << k << "] x [" << k << ", " << n << "] " << bits);
        const Array a(t, random_values(static_cast<size_t>(m * k), 1)),
            b(t, random_values(static_cast<size_t>(k * n), 2));
        Array c(t, random_values(static_cast<size_t>(m * n), 3));
        Sums sums{};
        for (int64_t i = 0; i < m * n; ++i) {
          double value = 0, extent = 0;
          for (int64_t j = 0; j < k; ++j) {
            const double p = a[static_cast<size_t>(ta ? j * m + i / n : i / n * k + j)] *
                             b[static_cast<size_t>(tb ? i % n * k + j : j * n + i % n)];
            value += p;
            extent += std::fabs(p);
          }
          sums.value.push_back(value);
          sums.size.push_back(extent);
        }
        cpu::multiply_plain(t, ta, tb, m, n, k, a.data(), b.data(), c.data());
        check_product(t, c, sums);
      }
}

TEST_CASE("threads that multiply at once do not disturb each other", "[gemm]") {
  // Primitives are shared; what they work in must not be. Races show now and then: so again and again.
  for (const DType t : compute_types()) {
    const Product product(t, t, {530, 65, 39}, false, true, false);
    ThreadPool one(1), many(4);
    cpu::PackedMatrix packed;
    packed.pack(one, t, product.w.f32(), 65, 39, false);
    const Array expected = product.run(one, packed);
    const auto gradient = [&](ThreadPool& pool) {
      Array dw(DType::kF32, Values(65 * 39));
      cpu::multiply_transposed(pool, t, 530, 65, 39, expected.data(), product.x.data(), dw.f32());
      return dw;
    };
    const Array expected_gradient = gradient(one);
    for (int i = 0; i < 100; ++i) {
      REQUIRE(product.run(many, packed) == expected);
      REQUIRE(gradient(many) == expected_gradient);
    }
    // Different products at the same time, each in one thread.
    std::vector<char> wrong(200);
    many.parallel_for(200, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Array c(t, Values(33 * 29));
        cpu::multiply_plain(t, false, false, 33, 29, 40, product.x.data(), product.x.data(), c.data());
        Array again = c;
        cpu::multiply_plain(t, false, false, 33, 29, 40, product.x.data(), product.x.data(), again.data());
        wrong[static_cast<size_t>(i)] = c == again ? 0 : 1;
      }
    });
    CHECK(std::ranges::count(wrong, 1) == 0);
  }
}

// oneDNN would open a team of OpenMP's, as large as the machine, in each thread that begins to multiply.
TEST_CASE("a thread that multiplies opens no others", "[gemm]") {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = threads();
  std::thread([&] {
    omp_set_num_threads(16);
    constexpr int64_t kN = 1056, kK = 1040;  // sizes that no other test multiplies
    const std::vector<float> w(kN * kK, 1), x(2 * kK, 1);
    std::vector<float> y(2 * kN);
    cpu::multiply_plain(DType::kF32, false, true, 2, kN, kK, x.data(), w.data(), y.data());
    CHECK(y.back() == kK);
    CHECK(threads() <= before + 1);  // one that ended a moment ago may have been counted before
  }).join();
}
