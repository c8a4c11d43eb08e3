#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/amx.h"
#include "backend/cpu/kernels.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/cpu/attention_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// Tiles round weights to bf16 (not of all cases' items; where AMX is hidden, as in one of ctest's tests, of none).
bool by_amx(const Case& c) {
  return c.type == DType::kBF16 && cpu::has_amx() && cpu::instruction_set() == std::string_view("AVX3");
}

void check_with_target(const Case& c) {
  const Problem p(c);
  INFO("heads " << c.heads << ", d_k " << c.d_k << ", d_v " << c.d_v << ", causal " << c.causal << ", window "
                << c.window << ", dropout " << c.rate << ", " << name_of(c.type) << ", " << cpu::instruction_set());
  Array out = filled(c.type, p.dout.size());
  Array dq = filled(c.type, p.q.size()), dkv = filled(c.type, p.kv.size());
  std::vector<float> logsumexp(c.heads * p.q_begin.back(), kUntouched);
  p.attention(0, p.items(), out, logsumexp);
  p.attention_backward(0, p.items(), logsumexp, dq, dkv);
  const double part = by_amx(c) ? half_unit(c.type) : kFloat32Sums;
  check_results(p, out, logsumexp, dq, dkv, part);
  Array alone = filled(c.type, p.dout.size());  // without a gradient
  p.attention(0, p.items(), alone);
  check_out(p, alone, part);
}

void check(const Case& c) {
  for (int64_t target : targets()) {
    const Target use(target);
    check_with_target(c);
  }
}

}  // namespace

TEST_CASE("attention's reference gradient agrees with finite differences", "[attention]") {
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

TEST_CASE("attention and its gradient agree with the float64 reference", "[attention]") {
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
    check({type, 2, 33, 1, causal, rate, lengths, lengths});
  }
  SECTION("other keys") { check({type, 2, 32, 32, causal, rate, {1, 33, 7, 0, 40, 65}, {130, 9, 33, 40, 0, 1}}); }
  SECTION("few queries") { check({type, 3, 21, 48, causal, rate, {4, 8, 3, 5, 2, 6, 1}, {5, 70, 64, 6, 33, 7, 2}}); }
  SECTION("a long sentence") { check({type, 1, 8, 8, causal, rate, {1100}, {1100}}); }
}

TEST_CASE("restricted attention and its gradient agree with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const int window = GENERATE(1, 2, 15, 40, 1000);
  const float rate = window % 2 == 0 ? 0.1f : 0;
  const std::vector<int32_t> lengths{1, 33, 7, 0, 65, 130, 16, 300};
  check({type, 2, 16, 32, causal, rate, lengths, lengths, false, window});
  check({type, 1, 21, 13, causal, 0.1f - rate, lengths, lengths, false, window});
}

TEST_CASE("queries whose window holds no key attend to nothing", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const int d = GENERATE(16, 48);
  check({type, 2, d, d, GENERATE(false, true), GENERATE(0.0f, 0.1f), {20, 100, 3}, {8, 30, 40}, false, 4});
}

// A time would depend on the machine: what is not seen may hold anything, and is not read.
TEST_CASE("restricted attention does not compute what is outside of its window", "[attention]") {
  const Case c{GENERATE(DType::kF32, DType::kBF16), 1, 16, 16, GENERATE(false, true), 0, {512}, {512}, false, 4};
  Problem p(c);
  constexpr int64_t kQuery = 300, kFar = 100;  // beyond a block of queries, its window and a line of tiles
  for (int64_t row = 0; row < 512; ++row)
    if (std::abs(row - kQuery) > kFar)
      for (int64_t i = 0; i < p.a.k_stride; ++i) p.kv.set(static_cast<size_t>(row * p.a.k_stride + i), INFINITY);
  Array out = filled(c.type, p.dout.size());
  std::vector<float> logsumexp(512);
  p.attention(0, 1, out, logsumexp);
  for (const double x : Problem::columns(out, kQuery, 1, p.a.out_stride, 0, 16)) CHECK(std::isfinite(x));
}

TEST_CASE("attention of no sentence, and of empty ones, writes nothing", "[attention]") {
  check({DType::kF32, 2, 16, 16, false, 0, {}, {}});
  check({DType::kF32, 2, 16, 16, true, 0.1f, {0, 0}, {0, 0}});
}

TEST_CASE("attention's bits do not depend on the split of the items", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const std::vector<int32_t> lengths{5, 40, 1, 0, 77, 23, 64, 130};
  const Problem p({type, 4, 32, 48, causal, GENERATE(0.0f, 0.1f), lengths, lengths});
  const size_t n = 4 * static_cast<size_t>(p.q_begin.back());
  Array out = filled(type, p.dout.size()), dq = filled(type, p.q.size()), dkv = filled(type, p.kv.size());
  std::vector<float> logsumexp(n);
  p.attention(0, p.items(), out, logsumexp);
  p.attention_backward(0, p.items(), logsumexp, dq, dkv);
  Array alone = filled(type, p.dout.size());
  p.attention(0, p.items(), alone);

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
    Array alone2 = filled(type, p.dout.size());
    for (const auto& [begin, end] : ranges) {
      p.attention(begin, end, out2, logsumexp2);
      p.attention(begin, end, alone2);
      p.attention_backward(begin, end, logsumexp2, dq2, dkv2);
    }
    CHECK(out == out2);
    CHECK(alone == alone2);
    CHECK(std::memcmp(logsumexp.data(), logsumexp2.data(), n * sizeof(float)) == 0);
    CHECK(dq == dq2);
    CHECK(dkv == dkv2);
  }
}

TEST_CASE("attention stays finite for large scores", "[attention]") {
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

TEST_CASE("attention over a cache agrees with the float64 reference, whatever the split", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto sizes =
      GENERATE(std::array<int, 3>{8, 64, 64}, std::array<int, 3>{1, 16, 24}, std::array<int, 3>{3, 21, 13});
  CachedProblem p(type, sizes[0], sizes[1], sizes[2], false, GENERATE(0, 7));
  for (int64_t r = 0; r < p.kRows; ++r)  // nobody reads beyond a row's length
    std::fill_n(&p.entry[r * p.kEntryStride + p.length[r]], p.kEntryStride - p.length[r], 0);
  Random random(10);
  const auto run = [&](int64_t begin, int64_t end, Array& out) {
    cpu::attention_cached(type, p.a, begin, end, p.q.data(), p.k.data(), p.v.data(), out.data());
  };
  for (int64_t target : targets()) {
    const Target use(target);
    Array out = filled(type, p.kRows * p.a.out_stride);
    run(0, p.kRows, out);
    p.check(out);
    Array split = filled(type, p.kRows * p.a.out_stride);
    for (int64_t r = 0; r < p.kRows;) {
      const int64_t end = std::min<int64_t>(p.kRows, r + 1 + static_cast<int64_t>(random.below(6)));
      run(r, end, split);
      r = end;
    }
    CHECK(out == split);
  }
}
