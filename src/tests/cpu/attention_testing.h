#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/cpu/kernel_testing.h"

// What the tests of attention share, on whatever device: the reference and problems with packed sentences.
namespace nmt::testing {

using Reals = std::vector<double>;

inline constexpr double kUntouched = 77;

// Element i of an array, as kernels take their arguments.
inline const void* at(DType t, const Array& x, int64_t i) {
  return static_cast<const char*>(x.data()) + i * size_of(t);
}
inline void* at(DType t, Array& x, int64_t i) { return static_cast<char*>(x.data()) + i * size_of(t); }

inline Array random_array(DType t, int64_t n, uint64_t seed) {
  return Array(t, random_values(static_cast<size_t>(n), seed));
}

inline Array filled(DType t, size_t n) { return Array(t, Reals(n, kUntouched)); }

// Allowed error: bf16 results are rounded to 8 bits, half a unit is at most 2^-8 of the value (f16: 11 bits, 2^-11);
// sums are off by a small part of the array's largest element, in whatever order they run.
constexpr double kFloat32Sums = 4e-6;

inline double half_unit(DType t) { return t == DType::kBF16 ? 1.0 / 256 : t == DType::kF16 ? 1.0 / 2048 : 0; }

inline double tolerance(DType t, double value, double largest, double part) {
  return half_unit(t) * std::abs(value) + part * (largest + 0.025);
}

// ---- the reference: one sentence, one head, float64 -------------------------------------------------------------

struct Head {
  int64_t queries, keys, d_k, d_v;
  double scale;
  KeyMask mask;
  Reals q, k, v, factor;  // factor: per weight 0 or 1 / (1 - rate)
};

struct Forward {
  Reals p, out, logsumexp;
};

inline Forward forward(const Head& h) {
  Forward f{Reals(h.queries * h.keys), Reals(h.queries * h.d_v), Reals(h.queries)};
  for (int64_t i = 0; i < h.queries; ++i) {
    const auto seen = [&](int64_t j) {
      const int64_t distance = h.mask.causal ? i - j : std::abs(i - j);
      return distance >= 0 && (h.mask.window == 0 || distance <= h.mask.window);
    };
    double* p = f.p.data() + i * h.keys;
    double total = 0;
    for (int64_t j = 0; j < h.keys; ++j) {
      if (!seen(j)) continue;
      for (int64_t c = 0; c < h.d_k; ++c) p[j] += h.scale * h.q[i * h.d_k + c] * h.k[j * h.d_k + c];
      total += std::exp(p[j]);
    }
    f.logsumexp[i] = std::log(total);
    for (int64_t j = 0; j < h.keys; ++j) {
      if (!seen(j)) continue;
      p[j] = std::exp(p[j]) / total;
      for (int64_t c = 0; c < h.d_v; ++c) f.out[i * h.d_v + c] += p[j] * h.factor[i * h.keys + j] * h.v[j * h.d_v + c];
    }
  }
  return f;
}

struct Gradient {
  Reals dq, dk, dv;
  double dq_terms = 0, dk_terms = 0;  // the largest sums of what dq and dk are sums of, without signs: they may cancel
};

inline Gradient backward(const Head& h, const Reals& dout) {
  const Forward f = forward(h);
  Gradient g{Reals(h.q.size()), Reals(h.k.size()), Reals(h.v.size())};
  Reals dp(h.keys), dq_terms(h.q.size()), dk_terms(h.k.size());
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
        const double terms = h.scale * p[j] * (std::abs(dp[j]) + std::abs(mean));
        dq_terms[i * h.d_k + c] += terms * std::abs(h.k[j * h.d_k + c]);
        dk_terms[j * h.d_k + c] += terms * std::abs(h.q[i * h.d_k + c]);
      }
    }
  }
  for (double x : dq_terms) g.dq_terms = std::max(g.dq_terms, x);
  for (double x : dk_terms) g.dk_terms = std::max(g.dk_terms, x);
  return g;
}

// ---- a case: packed sentences; q, k and v are column ranges of wider rows ----------------------------------------

struct Case {
  DType type;
  int heads, d_k, d_v;
  bool causal;
  float rate;
  std::vector<int32_t> queries, keys;  // lengths
  bool aligned = false;                // rows begin at multiples of eight elements, if columns do
  int window = 0;
};

struct Problem {
  explicit Problem(const Case& c) : type(c.type), q(c.type, 0), kv(c.type, 0), dout(c.type, 0) {
    for (size_t s = 0; s < c.queries.size(); ++s) {
      q_begin.push_back(q_begin.back() + c.queries[s]);
      k_begin.push_back(k_begin.back() + c.keys[s]);
      weight_begin.push_back(weight_begin.back() + static_cast<int64_t>(c.queries[s]) * c.keys[s]);
    }
    const int64_t kv_stride = c.heads * (c.d_k + c.d_v) + (c.aligned ? 16 : 5);
    const int64_t q_stride = c.heads * c.d_k + (c.aligned ? 8 : 3), out_stride = c.heads * c.d_v + (c.aligned ? 8 : 1);
    a = {static_cast<int64_t>(c.queries.size()),
         q_begin.data(),
         k_begin.data(),
         weight_begin.data(),
         c.heads,
         c.d_k,
         c.d_v,
         1 / std::sqrt(static_cast<float>(c.d_k)),
         {c.causal, c.window},
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

  void attention(int64_t begin, int64_t end, Array& out) const {  // without a gradient
    cpu::attention(type, a, begin, end, q.data(), kv.data(), at(type, kv, v_column()), out.data(), nullptr);
  }

  void attention_backward(int64_t begin, int64_t end, const std::vector<float>& logsumexp, Array& dq,
                          Array& dkv) const {
    cpu::attention_backward(type, a, begin, end, q.data(), kv.data(), at(type, kv, v_column()), logsumexp.data(),
                            dout.data(), dq.data(), dkv.data(), at(type, dkv, v_column()));
  }

  Head head(int64_t item) const {
    const int64_t s = item / a.heads, h = item % a.heads;
    Head x{q_begin[s + 1] - q_begin[s], k_begin[s + 1] - k_begin[s], a.d_k, a.d_v, a.scale, a.mask, {}, {}, {}, {}};
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

// largest: at least that of the terms that are summed.
inline void check_close(DType t, const Reals& expected, const Reals& actual, double part = kFloat32Sums,
                        double largest = 0) {
  REQUIRE(expected.size() == actual.size());
  for (double x : expected)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  int64_t wrong = 0;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;  // also -infinity
    const double error = std::abs(expected[i] - actual[i]);
    if (!(error <= tolerance(t, expected[i], largest, part))) ++wrong;  // also NaN
    worst = std::max(worst, error);
  }
  INFO("largest " << largest << ", worst error " << worst);
  CHECK(wrong == 0);
}

// Columns [from, stride) of every row still hold what was there.
inline bool untouched(const Array& x, size_t stride, size_t from) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % stride >= from && x[i] != kUntouched) return false;
  }
  return true;
}

// What attention wrote for a problem, against the reference; no other column was touched.
inline void check_out(const Problem& p, const Array& out, double part = kFloat32Sums) {
  const auto& a = p.a;
  CHECK(untouched(out, a.out_stride, a.heads * a.d_v));
  for (int64_t item = 0; item < p.items(); ++item) {
    const int64_t s = item / a.heads, h = item % a.heads;
    const Head head = p.head(item);
    INFO("sentence " << s << " of " << head.queries << " queries and " << head.keys << " keys, head " << h);
    const Reals written = Problem::columns(out, p.q_begin[s], head.queries, a.out_stride, h * a.d_v, a.d_v);
    check_close(p.type, forward(head).out, written, part);
  }
}

// What attention and its gradient wrote for a problem, against the reference; no other column was touched. `part` is
// the tolerance's, but for logsumexp.
inline void check_results(const Problem& p, const Array& out, const std::vector<float>& logsumexp, const Array& dq,
                          const Array& dkv, double part = kFloat32Sums) {
  const auto& a = p.a;
  check_out(p, out, part);
  CHECK(untouched(dq, a.q_stride, a.heads * a.d_k));
  CHECK(untouched(dkv, a.k_stride, a.heads * (a.d_k + a.d_v)));
  for (int64_t item = 0; item < p.items(); ++item) {
    const int64_t s = item / a.heads, h = item % a.heads;
    const Head head = p.head(item);
    INFO("sentence " << s << " of " << head.queries << " queries and " << head.keys << " keys, head " << h);
    const Forward f = forward(head);
    const float* l = logsumexp.data() + h * p.q_begin.back() + p.q_begin[s];
    check_close(DType::kF32, f.logsumexp, Reals(l, l + head.queries));
    const Gradient g =
        backward(head, Problem::columns(p.dout, p.q_begin[s], head.queries, a.out_stride, h * a.d_v, a.d_v));
    check_close(p.type, g.dq, Problem::columns(dq, p.q_begin[s], head.queries, a.q_stride, h * a.d_k, a.d_k), part,
                g.dq_terms);
    check_close(p.type, g.dk, Problem::columns(dkv, p.k_begin[s], head.keys, a.k_stride, h * a.d_k, a.d_k), part,
                g.dk_terms);
    check_close(p.type, g.dv,
                Problem::columns(dkv, p.k_begin[s], head.keys, a.v_stride, p.v_column() + h * a.d_v, a.d_v), part);
  }
}

// ---- decoding: rows of one query over entries of a cache ----------------------------------------------------------

struct CachedProblem {
  CachedProblem(DType t, int heads, int d_k, int d_v, bool aligned = false, int window = 0)
      : type(t), entry(kRows * kEntryStride) {
    a = {.heads = heads,
         .d_k = d_k,
         .d_v = d_v,
         .window = window,
         .scale = 0.25f,
         .entry = entry.data(),
         .entry_stride = kEntryStride,
         .length = length.data(),
         .q_stride = heads * d_k + (aligned ? 24 : 2),
         .k_stride = heads * d_k + (aligned ? 8 : 2),
         .v_stride = heads * d_v + (aligned ? 16 : 4),
         .out_stride = heads * d_v + (aligned ? 16 : 4)};
    q = random_array(t, kRows * a.q_stride, 1);
    k = random_array(t, kEntries * a.k_stride, 2);
    v = random_array(t, kEntries * a.v_stride, 3);
    Random random(9);
    for (int32_t& e : entry) e = 1 + static_cast<int32_t>(random.below(kEntries - 1));
    for (int64_t r = 1; r < kRows; ++r)
      std::copy_n(&entry[(r - 1) * kEntryStride], shared[r], &entry[r * kEntryStride]);
    for (Array* x : {&k, &v}) {  // the first entry, which nobody has, holds no numbers
      auto values = x->values();
      std::fill_n(values.begin(), x == &k ? a.k_stride : a.v_stride, std::numeric_limits<double>::quiet_NaN());
      *x = Array(t, values);
    }
  }
  CachedProblem(const CachedProblem&) = delete;
  CachedProblem& operator=(const CachedProblem&) = delete;

  // The result against the reference; no other column was touched.
  void check(const Array& out) const {
    CHECK(untouched(out, a.out_stride, a.heads * a.d_v));
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t h = 0; h < a.heads; ++h) {
        INFO("row " << r << ", head " << h << ", length " << length[r]);
        const int64_t seen = a.window == 0 ? length[r] : std::min(length[r], a.window + 1);
        Head head{1, seen, a.d_k, a.d_v, a.scale, {}, {}, {}, {}, Reals(seen, 1)};
        head.q = Problem::columns(q, r, 1, a.q_stride, h * a.d_k, a.d_k);
        for (int64_t j = length[r] - seen; j < length[r]; ++j) {
          const Reals key = Problem::columns(k, entry[r * kEntryStride + j], 1, a.k_stride, h * a.d_k, a.d_k);
          const Reals value = Problem::columns(v, entry[r * kEntryStride + j], 1, a.v_stride, h * a.d_v, a.d_v);
          head.k.insert(head.k.end(), key.begin(), key.end());
          head.v.insert(head.v.end(), value.begin(), value.end());
        }
        check_close(type, forward(head).out, Problem::columns(out, r, 1, a.out_stride, h * a.d_v, a.d_v));
      }
    }
  }

  static constexpr int64_t kRows = 28, kEntries = 150, kEntryStride = 205;
  DType type;
  // By row; `shared`: the keys that it begins with as the row before it does.
  std::vector<int32_t> length{3,   0,   1,   200, 200, 200, 200, 200, 16, 15, 17, 17, 17, 100,
                              100, 100, 100, 100, 100, 4,   4,   63,  63, 63, 8,  8,  2,  31};
  std::vector<int32_t> shared{0,   0,  0,   0, 101, 150, 30, 200, 7, 15, 15, 17, 4, 8,
                              100, 99, 100, 3, 50,  4,   4,  0,   5, 63, 6,  7,  2, 2};
  std::vector<int32_t> entry;
  AttentionOverCache a{};
  Array q{type, 0}, k{type, 0}, v{type, 0};
};

}  // namespace nmt::testing
