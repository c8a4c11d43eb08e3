#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cuda/kernels.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/cpu/attention_testing.h"
#include "tests/cuda/array_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

struct Results {
  Array out, dq, dkv;
  std::vector<float> logsumexp;
};

Results on_device(cuda::Device& device, const Problem& p) {
  OnDevice on(device);
  const int64_t queries = p.q_begin.back(), keys = p.k_begin.back();
  Results r{filled(p.type, p.dout.size()), filled(p.type, p.q.size()), filled(p.type, p.kv.size()),
            std::vector<float>(p.a.heads * queries, kUntouched)};
  Attention a = p.a;
  a.q_begin = on(p.q_begin);
  a.k_begin = on(p.k_begin);
  a.weight_begin = on(p.weight_begin);
  const auto values = [&](void* kv) {  // of nothing is nowhere
    return kv == nullptr ? nullptr : static_cast<std::byte*>(kv) + p.v_column() * size_of(p.type);
  };
  void *const q = on(p.q), *const kv = on(p.kv), *const dout = on(p.dout);
  void *const out = on(r.out), *const dq = on(r.dq), *const dkv = on(r.dkv);
  float* const logsumexp = on(r.logsumexp);
  auto* const room = static_cast<float*>(on.room(cuda::attention_room(queries, a.heads) * int64_t{sizeof(float)}));
  cuda::attention(on.stream(), p.type, a, queries, q, kv, values(kv), out, logsumexp);
  cuda::attention_backward(on.stream(), p.type, a, queries, keys, q, kv, values(kv), logsumexp, dout, room, dq, dkv,
                           values(dkv));
  on.read(out, r.out);
  on.read(dq, r.dq);
  on.read(dkv, r.dkv);
  on.read(logsumexp, r.logsumexp);
  return r;
}

// The result of attention over a cache.
Array on_device(cuda::Device& device, const CachedProblem& p) {
  return in_any_order(device, [&](OnDevice& on) {
    Array out = filled(p.type, p.kRows * p.a.out_stride);
    void* const result = on(out);
    AttentionOverCache a = p.a;
    a.entry = on(p.entry);
    a.length = on(p.length);
    cuda::attention_cached(on.stream(), p.type, a, p.kRows, on(p.q), on(p.k), on(p.v), result);
    on.read(result, out);
    return out;
  });
}

// Tensor cores round weights to the type of the values.
bool by_tensor_cores(const Case& c) {
  return c.type != DType::kF32 && c.aligned && c.window == 0 && c.d_k % 16 == 0 && c.d_v % 16 == 0 &&
         std::max(c.d_k, c.d_v) <= 128;
}

void check(const Case& c) {
  const auto device = test_device();
  if (device == nullptr) return;
  const Problem p(c);
  INFO("heads " << c.heads << ", d_k " << c.d_k << ", d_v " << c.d_v << ", causal " << c.causal << ", window "
                << c.window << ", dropout " << c.rate << ", " << name_of(c.type) << (c.aligned ? ", aligned" : ""));
  const Results r = on_device(*device, p);
  check_results(p, r.out, r.logsumexp, r.dq, r.dkv, by_tensor_cores(c) ? half_unit(c.type) : kFloat32Sums);
}

const std::vector<int32_t> kLengths{7, 0, 64, 1, 130, 65};

}  // namespace

TEST_CASE("attention on a device agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const bool aligned = GENERATE(false, true);
  const float rate = causal == aligned ? 0.1f : 0;
  SECTION("itself") {
    check({type, 3, 16, 16, causal, rate, kLengths, kLengths, aligned});
    check({type, 1, 64, 64, causal, rate, kLengths, kLengths, aligned});
  }
  SECTION("other keys") {
    check({type, 2, 32, 32, causal, rate, {7, 64, 0, 130, 65, 1}, {64, 1, 130, 7, 0, 65}, aligned});
    check({type, 8, 5, 7, causal, rate, {7, 64, 0, 130, 65, 1}, {64, 1, 130, 7, 0, 65}, aligned});
  }
}

TEST_CASE("attention by tensor cores agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kBF16, DType::kF16);
  const bool causal = GENERATE(false, true);
  const float rate = causal ? 0.3f : 0;
  check({type, 2, 128, 128, causal, rate, {7, 64, 0, 130, 65, 1}, {64, 1, 130, 7, 0, 65}, true});
  check({type, 8, 16, 48, causal, rate, {33, 16}, {17, 100}, true});
  check({type, 1, 80, 32, causal, rate, {600}, {600}, true});
}

// Where they are, a block is a warp.
TEST_CASE("attention of short sentences by tensor cores agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kBF16, DType::kF16);
  const bool causal = GENERATE(false, true);
  const float rate = GENERATE(0.f, 0.3f);
  const std::vector<int32_t> queries{7, 0, 33, 16, 20, 1}, keys{17, 5, 0, 40, 20, 3};
  check({type, 2, 64, 64, causal, rate, queries, keys, true});
  check({type, 3, 16, 48, causal, rate, queries, keys, true});
  check({type, 1, 128, 128, causal, rate, queries, keys, true});
}

TEST_CASE("restricted attention on a device agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const int window = GENERATE(1, 63, 64, 100);
  const std::vector<int32_t> lengths{7, 0, 200, 65};
  check({type, 2, 16, 16, causal, window == 64 ? 0.1f : 0, lengths, lengths, true, window});
  check({type, 1, 5, 7, causal, 0, lengths, lengths, false, window});
}

TEST_CASE("attention of wide heads on a device agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const std::vector<int32_t> queries{7, 0, 65, 1}, keys{70, 3, 65, 0};
  check({type, 1, 512, 512, causal, 0.1f, queries, keys, true});
  check({type, 2, 256, 70, causal, 0.1f, queries, keys, true});
  check({type, 1, 3, 260, causal, 0.1f, queries, keys, false});
  check({type, 1, 1, 1, causal, 0.1f, queries, keys, false});
}

TEST_CASE("attention on a device of no sentence, and of empty ones, writes nothing", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  check({type, 2, 16, 16, false, 0, {}, {}, true});
  check({type, 2, 16, 16, true, 0.1f, {0, 0}, {0, 0}, true});
}

TEST_CASE("attention on a device: a sentence's bits do not depend on the others", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto device = test_device();
  if (device == nullptr) return;
  const Case alone{type, 2, 32, 32, true, 0, {100}, {100}, true};
  Case many = alone;
  many.queries = many.keys = {100, 40, 1, 0, 5, 3, 8, 9, 30, 2, 2, 2, 1, 1};
  const Results a = on_device(*device, Problem(alone)), b = on_device(*device, Problem(many));
  const auto begins_as = [](const Array& x, const Array& y) {
    for (size_t i = 0; i < y.size(); ++i) {
      if (x[i] != y[i]) return false;
    }
    return true;
  };
  CHECK(begins_as(b.out, a.out));
  CHECK(begins_as(b.dq, a.dq));
  CHECK(begins_as(b.dkv, a.dkv));
}

TEST_CASE("attention on a device does not depend on time", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto device = test_device();
  if (device == nullptr) return;
  using Lengths = std::vector<int32_t>;
  const auto [queries, keys] =
      GENERATE(table<Lengths, Lengths>({{{7, 0, 65, 130}, {7, 5, 65, 130}}, {{7, 0, 33, 9}, {7, 5, 33, 10}}}));
  const Problem p({type, 2, 64, 64, true, 0.1f, queries, keys, true});
  const Results first = on_device(*device, p);
  in_thread_orders([&] {
    const Results again = on_device(*device, p);
    CHECK(again.out == first.out);
    CHECK(again.logsumexp == first.logsumexp);
    CHECK(again.dq == first.dq);
    CHECK(again.dkv == first.dkv);
  });
}

TEST_CASE("attention on a device stays finite for large scores", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto device = test_device();
  if (device == nullptr) return;
  Problem p({type, 1, 16, 16, false, 0, {80}, {80}, true});
  p.a.scale = 1000;
  const Results r = on_device(*device, p);
  for (const Array* x : {&r.out, &r.dq, &r.dkv}) {
    for (double value : x->values()) REQUIRE(std::isfinite(value));
  }
}

TEST_CASE("attention over a cache on a device agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const auto device = test_device();
  if (device == nullptr) return;
  const auto check = [&](const CachedProblem& p) {
    INFO("heads " << p.a.heads << ", d_k " << p.a.d_k << ", d_v " << p.a.d_v << ", " << name_of(type));
    p.check(on_device(*device, p));
  };
  check({type, 8, 64, 64, true});
  check({type, 8, 64, 64, false});
  check({type, 1, 16, 24, true});
  check({type, 3, 21, 13, false});
  check({type, 2, 1, 1, false});
  check({type, 1, 512, 512, true});
  check({type, 1, 300, 262, false});
  check({type, 8, 64, 64, true, 7});
  check({type, 3, 21, 13, false, 99});
  // So many queries that a block has several.
  if (type == DType::kBF16)
    check({type, 631, 16, 8, true});
  else
    check({type, 631, 3, 5, false, 20});
}

TEST_CASE("attention over a cache on a device of what is no number is none", "[attention]") {
  const auto heads = GENERATE(2, 631);  // many share a block
  const auto device = test_device();
  if (device == nullptr) return;
  CachedProblem p(DType::kF32, heads, 16, 8);
  p.q = Array(DType::kF32, Reals(static_cast<size_t>(p.q.size()), std::numeric_limits<double>::quiet_NaN()));
  const Array out = on_device(*device, p);
  for (int64_t r = 0; r < p.kRows; ++r) {
    INFO("row " << r << ", length " << p.length[static_cast<size_t>(r)]);
    for (const double value : Problem::columns(out, r, 1, p.a.out_stride, 0, heads * p.a.d_v))
      REQUIRE((p.length[static_cast<size_t>(r)] == 0 ? value == 0 : std::isnan(value)));
  }
}
