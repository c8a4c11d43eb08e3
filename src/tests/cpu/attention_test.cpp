#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/cpu/kernel_testing.h"

using namespace nmt;
using testing::Array;

namespace {

using Reals = std::vector<double>;

constexpr double kUntouched = 77;

// Element i of an array, as kernels take their arguments.
const void* at(DType t, const Array& x, int64_t i) { return static_cast<const char*>(x.data()) + i * size_of(t); }
void* at(DType t, Array& x, int64_t i) { return static_cast<char*>(x.data()) + i * size_of(t); }

Array random_array(DType t, int64_t n, uint64_t seed) {
  return Array(t, testing::random_values(static_cast<size_t>(n), seed));
}

Array filled(DType t, size_t n) { return Array(t, Reals(n, kUntouched)); }

// Allowed error: bf16 results are rounded to 8 bits, half a unit is at most 2^-8 of the value; sums in float32 are off
// by a small part of the array's largest element, in whatever order they run.
double tolerance(DType t, double value, double largest) {
  return (t == DType::kBF16 ? std::abs(value) / 256 : 0.0) + 4e-6 * largest + 1e-7;
}

// ---- the reference: one sentence, one head, float64 -------------------------------------------------------------

struct Head {
  int64_t queries, keys, d_k, d_v;
  double scale;
  bool causal;
  Reals q, k, v, factor;  // factor: per weight 0 or 1 / (1 - rate)
};

struct Forward {
  Reals p, out, logsumexp;
};

Forward forward(const Head& h) {
  Forward f{Reals(h.queries * h.keys), Reals(h.queries * h.d_v), Reals(h.queries)};
  for (int64_t i = 0; i < h.queries; ++i) {
    const int64_t seen = h.causal ? std::min(i + 1, h.keys) : h.keys;
    double* p = f.p.data() + i * h.keys;
    double total = 0;
    for (int64_t j = 0; j < seen; ++j) {
      for (int64_t c = 0; c < h.d_k; ++c) p[j] += h.scale * h.q[i * h.d_k + c] * h.k[j * h.d_k + c];
      total += std::exp(p[j]);
    }
    f.logsumexp[i] = std::log(total);
    for (int64_t j = 0; j < seen; ++j) {
      p[j] = std::exp(p[j]) / total;
      for (int64_t c = 0; c < h.d_v; ++c) f.out[i * h.d_v + c] += p[j] * h.factor[i * h.keys + j] * h.v[j * h.d_v + c];
    }
  }
  return f;
}

struct Gradient {
  Reals dq, dk, dv;
};

Gradient backward(const Head& h, const Reals& dout) {
  const Forward f = forward(h);
  Gradient g{Reals(h.q.size()), Reals(h.k.size()), Reals(h.v.size())};
  Reals dp(h.keys);
  for (int64_t i = 0; i < h.queries; ++i) {
    const double* p = f.p.data() + i * h.keys;
    const double* factor = h.factor.data() + i * h.keys;
    double mean = 0;
    for (int64_t j = 0; j < h.keys; ++j) {
      dp[j] = 0;
      for (int64_t c = 0; c < h.d_v; ++c) {
        dp[j] += factor[j] * dout[i * h.d_v + c] * h.v[j * h.d_v + c];
        g.dv[j * h.d_v + c] += p[j] * factor[j] * dout[i * h.d_v + c];
      }
      mean += p[j] * dp[j];
    }
    for (int64_t j = 0; j < h.keys; ++j) {
      for (int64_t c = 0; c < h.d_k; ++c) {
        g.dq[i * h.d_k + c] += h.scale * p[j] * (dp[j] - mean) * h.k[j * h.d_k + c];
        g.dk[j * h.d_k + c] += h.scale * p[j] * (dp[j] - mean) * h.q[i * h.d_k + c];
      }
    }
  }
  return g;
}

// ---- a case: packed sentences; q, k and v are column ranges of wider rows ----------------------------------------

struct Case {
  DType type;
  int heads, d_k, d_v;
  bool causal;
  float rate;
  std::vector<int32_t> queries, keys;  // lengths
};

struct Problem {
  explicit Problem(const Case& c) : type(c.type), q(c.type, 0), kv(c.type, 0), dout(c.type, 0) {
    for (size_t s = 0; s < c.queries.size(); ++s) {
      q_begin.push_back(q_begin.back() + c.queries[s]);
      k_begin.push_back(k_begin.back() + c.keys[s]);
      weight_begin.push_back(weight_begin.back() + static_cast<int64_t>(c.queries[s]) * c.keys[s]);
    }
    const int64_t kv_stride = c.heads * (c.d_k + c.d_v) + 5, q_stride = c.heads * c.d_k + 3;
    const int64_t out_stride = c.heads * c.d_v + 1;
    a = {static_cast<int64_t>(c.queries.size()),
         q_begin.data(),
         k_begin.data(),
         weight_begin.data(),
         c.heads,
         c.d_k,
         c.d_v,
         1 / std::sqrt(static_cast<float>(c.d_k)),
         c.causal,
         {c.rate, 3, 12345, 0x123456789ABCDEF0ull},
         q_stride,
         kv_stride,
         kv_stride,
         out_stride};
    q = random_array(type, q_begin.back() * q_stride, 1);
    kv = random_array(type, k_begin.back() * kv_stride, 2);
    dout = random_array(type, q_begin.back() * out_stride, 3);
  }

  int64_t items() const { return a.sentences * a.heads; }
  int64_t v_column() const { return a.heads * a.d_k; }

  void attention(int64_t begin, int64_t end, Array& out, std::vector<float>& logsumexp) const {
    cpu::attention(type, a, begin, end, q.data(), kv.data(), at(type, kv, v_column()), out.data(), logsumexp.data());
  }

  void attention_backward(int64_t begin, int64_t end, const std::vector<float>& logsumexp, Array& dq,
                          Array& dkv) const {
    cpu::attention_backward(type, a, begin, end, q.data(), kv.data(), at(type, kv, v_column()), logsumexp.data(),
                            dout.data(), dq.data(), dkv.data(), at(type, dkv, v_column()));
  }

  Head head(int64_t item) const {
    const int64_t s = item / a.heads, h = item % a.heads;
    Head x{q_begin[s + 1] - q_begin[s], k_begin[s + 1] - k_begin[s], a.d_k, a.d_v, a.scale, a.causal, {}, {}, {}, {}};
    x.q = columns(q, q_begin[s], x.queries, a.q_stride, h * a.d_k, a.d_k);
    x.k = columns(kv, k_begin[s], x.keys, a.k_stride, h * a.d_k, a.d_k);
    x.v = columns(kv, k_begin[s], x.keys, a.v_stride, v_column() + h * a.d_v, a.d_v);
    x.factor.assign(x.queries * x.keys, 1);
    if (a.dropout.rate > 0) {
      std::vector<uint8_t> mask(x.factor.size());
      const int64_t first = h * weight_begin.back() + weight_begin[s];
      cpu::dropout_mask(a.dropout, first, first + x.queries * x.keys, mask.data());
      for (size_t i = 0; i < mask.size(); ++i) x.factor[i] = mask[i] / (1 - static_cast<double>(a.dropout.rate));
    }
    return x;
  }

  static Reals columns(const Array& x, int64_t row, int64_t rows, int64_t stride, int64_t column, int64_t width) {
    Reals r;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < width; ++c) r.push_back(x[(row + i) * stride + column + c]);
    }
    return r;
  }

  DType type;
  std::vector<int32_t> q_begin{0}, k_begin{0};
  std::vector<int64_t> weight_begin{0};
  Attention a;
  Array q, kv, dout;  // kv: columns of k, then of v
};

void check_close(DType t, const Reals& expected, const Reals& actual) {
  REQUIRE(expected.size() == actual.size());
  double largest = 0;
  for (double x : expected) largest = std::max(largest, std::abs(x));
  int64_t wrong = 0;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(expected[i] - actual[i]);
    if (!(error <= tolerance(t, expected[i], largest))) ++wrong;  // also NaN
    worst = std::max(worst, error);
  }
  INFO("largest " << largest << ", worst error " << worst);
  CHECK(wrong == 0);
}

// Columns [from, stride) of every row still hold what was there.
bool untouched(const Array& x, size_t stride, size_t from) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % stride >= from && x[i] != kUntouched) return false;
  }
  return true;
}

void check_with_target(const Case& c) {
  const Problem p(c);
  INFO("heads " << c.heads << ", d_k " << c.d_k << ", d_v " << c.d_v << ", causal " << c.causal << ", dropout "
                << c.rate << ", " << name_of(c.type) << ", " << cpu::instruction_set());
  Array out = filled(c.type, p.dout.size());
  Array dq = filled(c.type, p.q.size()), dkv = filled(c.type, p.kv.size());
  std::vector<float> logsumexp(c.heads * p.q_begin.back(), kUntouched);
  p.attention(0, p.items(), out, logsumexp);
  p.attention_backward(0, p.items(), logsumexp, dq, dkv);
  CHECK(untouched(out, p.a.out_stride, c.heads * c.d_v));
  CHECK(untouched(dq, p.a.q_stride, c.heads * c.d_k));
  CHECK(untouched(dkv, p.a.k_stride, c.heads * (c.d_k + c.d_v)));

  for (int64_t item = 0; item < p.items(); ++item) {
    const int64_t s = item / c.heads, h = item % c.heads;
    INFO("sentence " << s << " of " << c.queries[s] << " queries and " << c.keys[s] << " keys, head " << h);
    const Head head = p.head(item);
    const Forward f = forward(head);
    check_close(c.type, f.out, Problem::columns(out, p.q_begin[s], head.queries, p.a.out_stride, h * c.d_v, c.d_v));
    const float* l = logsumexp.data() + h * p.q_begin.back() + p.q_begin[s];
    if (head.keys > 0) {
      check_close(DType::kF32, f.logsumexp, Reals(l, l + head.queries));
    } else {
      CHECK(std::all_of(l, l + head.queries, [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
    }
    const Gradient g =
        backward(head, Problem::columns(p.dout, p.q_begin[s], head.queries, p.a.out_stride, h * c.d_v, c.d_v));
    check_close(c.type, g.dq, Problem::columns(dq, p.q_begin[s], head.queries, p.a.q_stride, h * c.d_k, c.d_k));
    check_close(c.type, g.dk, Problem::columns(dkv, p.k_begin[s], head.keys, p.a.k_stride, h * c.d_k, c.d_k));
    check_close(c.type, g.dv,
                Problem::columns(dkv, p.k_begin[s], head.keys, p.a.v_stride, p.v_column() + h * c.d_v, c.d_v));
  }
}

void check(const Case& c) {
  for (int64_t target : testing::targets()) {
    const testing::Target use(target);
    check_with_target(c);
  }
}

}  // namespace

TEST_CASE("attention's reference gradient agrees with finite differences") {
  const Problem p({DType::kF32, 1, 6, 5, GENERATE(false, true), 0.3f, {7}, {9}});
  Head h = p.head(0);
  const Reals dout = Problem::columns(p.dout, 0, 7, p.a.out_stride, 0, 5);
  const Gradient g = backward(h, dout);
  const auto loss = [&] {
    const Forward f = forward(h);
    double sum = 0;
    for (size_t i = 0; i < dout.size(); ++i) sum += dout[i] * f.out[i];
    return sum;
  };
  const auto compare = [&](Reals& x, const Reals& dx) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i], step = 1e-5;
      x[i] = kept + step;
      const double above = loss();
      x[i] = kept - step;
      const double below = loss();
      x[i] = kept;
      CHECK((above - below) / (2 * step) == Approx(dx[i]).margin(1e-8));
    }
  };
  compare(h.q, g.dq);
  compare(h.k, g.dk);
  compare(h.v, g.dv);
}

TEST_CASE("attention and its gradient agree with the float64 reference") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const float rate = GENERATE(0.0f, 0.1f, 0.5f);
  SECTION("itself") {
    const std::vector<int32_t> lengths{1, 33, 7, 0, 65, 130, 16};
    check({type, 2, 64, 64, causal, rate, lengths, lengths});
    check({type, 3, 16, 32, causal, rate, lengths, lengths});
    check({type, 1, 128, 80, causal, rate, lengths, lengths});
    check({type, 2, 21, 13, causal, rate, lengths, lengths});
    check({type, 1, 1, 3, causal, rate, lengths, lengths});
  }
  SECTION("other keys") { check({type, 2, 32, 32, causal, rate, {1, 33, 7, 0, 20, 65}, {130, 9, 33, 4, 0, 1}}); }
  SECTION("a long sentence") { check({type, 1, 8, 8, causal, rate, {1100}, {1100}}); }
}

TEST_CASE("attention of no sentence, and of empty ones, writes nothing") {
  check({DType::kF32, 2, 16, 16, false, 0, {}, {}});
  check({DType::kF32, 2, 16, 16, true, 0.1f, {0, 0}, {0, 0}});
}

TEST_CASE("attention's bits do not depend on the split of the items") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const std::vector<int32_t> lengths{5, 40, 1, 0, 77, 23, 64, 130};
  const Problem p({type, 4, 32, 48, causal, 0.1f, lengths, lengths});
  const size_t n = 4 * static_cast<size_t>(p.q_begin.back());
  Array out = filled(type, p.dout.size()), dq = filled(type, p.q.size()), dkv = filled(type, p.kv.size());
  std::vector<float> logsumexp(n);
  p.attention(0, p.items(), out, logsumexp);
  p.attention_backward(0, p.items(), logsumexp, dq, dkv);

  Random random(5);
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (int64_t i = 0; i < p.items(); i = ranges.back().second) {
      ranges.emplace_back(i, std::min<int64_t>(p.items(), i + 1 + static_cast<int64_t>(random.below(6))));
    }
    random.shuffle(ranges);
    Array out2 = filled(type, p.dout.size()), dq2 = filled(type, p.q.size());
    Array dkv2 = filled(type, p.kv.size());
    std::vector<float> logsumexp2(n);
    for (const auto& [begin, end] : ranges) {
      p.attention(begin, end, out2, logsumexp2);
      p.attention_backward(begin, end, logsumexp2, dq2, dkv2);
    }
    CHECK(out == out2);
    CHECK(std::memcmp(logsumexp.data(), logsumexp2.data(), n * sizeof(float)) == 0);
    CHECK(dq == dq2);
    CHECK(dkv == dkv2);
  }
}

TEST_CASE("attention stays finite for large scores") {
  Case c{DType::kF32, 1, 16, 16, false, 0, {20}, {20}};
  Problem p(c);
  p.a.scale = 1000;
  Array out = filled(c.type, p.dout.size()), dq = filled(c.type, p.q.size()), dkv = filled(c.type, p.kv.size());
  std::vector<float> logsumexp(20);
  p.attention(0, 1, out, logsumexp);
  p.attention_backward(0, 1, logsumexp, dq, dkv);
  for (const Array* x : {&out, &dq, &dkv}) {
    for (double value : x->values()) REQUIRE(std::isfinite(value));
  }
}

TEST_CASE("attention over a cache agrees with the float64 reference, whatever the split") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto sizes =
      GENERATE(std::array<int, 3>{8, 64, 64}, std::array<int, 3>{1, 16, 24}, std::array<int, 3>{3, 21, 13});
  const int heads = sizes[0], d_k = sizes[1], d_v = sizes[2];
  constexpr int64_t kRows = 12, kEntries = 150, kStride = 205;
  const int64_t k_stride = heads * d_k + 2, v_stride = heads * d_v + 4, q_stride = k_stride, out_stride = v_stride;
  Random random(9);
  const Array q = random_array(type, kRows * q_stride, 1), k = random_array(type, kEntries * k_stride, 2);
  const Array v = random_array(type, kEntries * v_stride, 3);
  const std::vector<int32_t> length{3, 0, 1, 200, 16, 15, 17, 100, 4, 63, 8, 2};
  std::vector<int32_t> entry(kRows * kStride);
  for (int32_t& e : entry) e = static_cast<int32_t>(random.below(kEntries));
  const float scale = 0.25f;
  const auto run = [&](int64_t begin, int64_t end, Array& out) {
    cpu::attention_cached(type, heads, d_k, d_v, scale, begin, end, q.data(), q_stride, k.data(), k_stride, v.data(),
                          v_stride, entry.data(), kStride, length.data(), out.data(), out_stride);
  };
  for (int64_t target : testing::targets()) {
    const testing::Target use(target);
    Array out = filled(type, kRows * out_stride);
    run(0, kRows * heads, out);
    CHECK(untouched(out, out_stride, heads * d_v));
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        INFO("row " << r << ", head " << h << ", length " << length[r]);
        Head head{1, length[r], d_k, d_v, scale, false, {}, {}, {}, Reals(length[r], 1)};
        head.q = Problem::columns(q, r, 1, q_stride, h * d_k, d_k);
        for (int64_t j = 0; j < length[r]; ++j) {
          const Reals key = Problem::columns(k, entry[r * kStride + j], 1, k_stride, h * d_k, d_k);
          const Reals value = Problem::columns(v, entry[r * kStride + j], 1, v_stride, h * d_v, d_v);
          head.k.insert(head.k.end(), key.begin(), key.end());
          head.v.insert(head.v.end(), value.begin(), value.end());
        }
        check_close(type, forward(head).out, Problem::columns(out, r, 1, out_stride, h * d_v, d_v));
      }
    }
    Array split = filled(type, kRows * out_stride);
    for (int64_t i = 0; i < kRows * heads;) {
      const int64_t end = std::min<int64_t>(kRows * heads, i + 1 + static_cast<int64_t>(random.below(11)));
      run(i, end, split);
      i = end;
    }
    CHECK(out == split);
  }
}
