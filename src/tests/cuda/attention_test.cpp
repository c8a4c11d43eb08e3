#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cuda/kernels.h"
#include "base/philox.h"
#include "tests/catch.h"
#include "tests/cpu/attention_testing.h"
#include "tests/cuda/device_testing.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

struct Results {
  Array out, dq, dkv;
  std::vector<float> logsumexp;
};

Results on_device(cuda::Device& device, const Problem& p) {
  const DType t = p.type;
  const int64_t queries = p.q_begin.back(), keys = p.k_begin.back();
  Results r{filled(t, p.dout.size()), filled(t, p.q.size()), filled(t, p.kv.size()),
            std::vector<float>(p.a.heads * queries, kUntouched)};
  const auto q_begin = upload(device, p.q_begin), k_begin = upload(device, p.k_begin);
  const auto weight_begin = upload(device, p.weight_begin);
  const auto q = upload(device, p.q.bytes()), kv = upload(device, p.kv.bytes());
  const auto dout = upload(device, p.dout.bytes()), out = upload(device, r.out.bytes());
  const auto dq = upload(device, r.dq.bytes()), dkv = upload(device, r.dkv.bytes());
  const auto logsumexp = upload(device, r.logsumexp);
  const cuda::DeviceMemory room(device, cuda::attention_room(queries, p.a.heads) * sizeof(float));

  Attention a = p.a;
  a.q_begin = static_cast<const int32_t*>(q_begin.data());
  a.k_begin = static_cast<const int32_t*>(k_begin.data());
  a.weight_begin = static_cast<const int64_t*>(weight_begin.data());
  const auto values = [&](const cuda::DeviceMemory& x) {
    return static_cast<std::byte*>(x.data()) + p.v_column() * size_of(t);
  };
  auto* const normalisers = static_cast<float*>(logsumexp.data());
  cuda::attention(device.stream(), t, a, queries, q.data(), kv.data(), values(kv), out.data(), normalisers);
  cuda::attention_backward(device.stream(), t, a, queries, keys, q.data(), kv.data(), values(kv), normalisers,
                           dout.data(), static_cast<float*>(room.data()), dq.data(), dkv.data(), values(dkv));
  device.download(r.out.data(), out.data(), out.bytes());
  device.download(r.dq.data(), dq.data(), dq.bytes());
  device.download(r.dkv.data(), dkv.data(), dkv.bytes());
  r.logsumexp = download<float>(device, logsumexp);
  return r;
}

// part: see tolerance().
void check(const Case& c, double part = kFloat32Sums) {
  const auto device = test_device();
  if (device == nullptr) return;
  const Problem p(c);
  INFO("heads " << c.heads << ", d_k " << c.d_k << ", d_v " << c.d_v << ", causal " << c.causal << ", dropout "
                << c.rate << ", " << name_of(c.type) << (c.aligned ? ", aligned" : ""));
  const Results r = on_device(*device, p);
  check_results(p, r.out, r.logsumexp, r.dq, r.dkv, part);
}

const std::vector<int32_t> kLengths{7, 0, 64, 1, 130, 65, 300};

}  // namespace

TEST_CASE("attention on a device agrees with the float64 reference", "[attention]") {
  const auto type = GENERATE(DType::kF32, DType::kBF16);
  const bool causal = GENERATE(false, true);
  const float rate = GENERATE(0.0f, 0.1f);
  const bool aligned = GENERATE(false, true);
  SECTION("itself") {
    check({type, 3, 16, 16, causal, rate, kLengths, kLengths, aligned});
    check({type, 1, 64, 64, causal, rate, kLengths, kLengths, aligned});
  }
  SECTION("other keys") {
    check({type, 2, 32, 32, causal, rate, {7, 64, 0, 130, 65, 1}, {64, 1, 130, 7, 0, 65}, aligned});
    check({type, 8, 5, 7, causal, rate, {7, 64, 0, 130, 65, 1}, {64, 1, 130, 7, 0, 65}, aligned});
  }
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
  const Problem p({type, 2, 64, 64, true, 0.1f, {7, 0, 65, 130}, {7, 5, 65, 130}, true});
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
