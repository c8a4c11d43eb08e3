// What outlives a graph: packed weights, caches of decoding, seeds of dropout.
#include "graph/runtime.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>

#include "graph/basic_ops.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "tests/catch.h"
#include "tests/device.h"

using namespace nmt;

namespace {

std::vector<float> copied(Graph& graph, Expr x) {
  const float* data = graph.data<float>(x);
  return {data, data + x.shape().elements()};
}

}  // namespace

TEST_CASE("packed weights are kept until parameters change", "[ops]") {
  Runtime runtime(1);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> w{1, 0, 0, 0, 1, 0};
  const auto product = [&] {
    Graph graph(runtime);
    const Expr y = linear(graph.input({{1, 3}, DType::kF32}, x.data()), graph.parameter({2, 3}, w.data(), nullptr));
    graph.run({y});
    return copied(graph, y);
  };
  CHECK(runtime.packed_bytes() == 0);
  CHECK(product() == std::vector<float>{1, 2});
  const int64_t bytes = runtime.packed_bytes();
  CHECK(bytes >= 6 * 4);
  w = {0, 0, 1, 1, 1, 1};
  CHECK(product() == std::vector<float>{1, 2});  // nobody has said so
  runtime.parameters_changed();
  CHECK(product() == std::vector<float>{3, 6});
  CHECK(product() == std::vector<float>{3, 6});
  CHECK(runtime.packed_bytes() == bytes);
  w = {2, 0, 0, 0, 0, 2};  // another one in the same place
  runtime.forget(w.data());
  CHECK(runtime.packed_bytes() == 0);
  CHECK(product() == std::vector<float>{2, 6});
}

TEST_CASE("what repeats on a device is recorded, and sees new inputs, parameters and places", "[ops]") {
  const auto device = testing::test_device();
  if (device == nullptr) return;
  // The weight is not aligned for products, so that they read a copy of it.
  std::vector<float> w{0, 1, 0, 0, 0, 1, 0};
  FloatBuffer weight(device, std::span(w)), others[2];
  for (FloatBuffer& other : others) other = FloatBuffer(device, 2);
  Runtime runtime(1, DType::kF32, false, device);
  float x[] = {1, 2, 3};
  const auto check_product = [&](FloatBuffer& bias, float expected, int64_t recordings) {
    Graph graph(runtime);
    const Expr product =
        linear(graph.input({{1, 3}, DType::kF32}, x), graph.parameter({2, 3}, weight.data() + 1, nullptr));
    const Expr y = add(product, graph.parameter({2}, bias.data(), nullptr));
    graph.run({y});
    CHECK(copied(graph, y)[0] == expected);
    CHECK(runtime.recordings_begun() == recordings);
  };
  for (int i = 0; i < 2; ++i) check_product(others[0], 1, 0);
  for (int i = 1; i < 4; ++i) {
    x[0] = static_cast<float>(10 * i);
    check_product(others[0], x[0], i);
  }
  // Elsewhere: another recording, and the first remains.
  others[1].host()[0] = 7;
  others[1].upload();
  for (int i = 0; i < 3; ++i) check_product(others[1], 37, i < 2 ? 3 : 4);
  check_product(others[0], 30, 5);
  // Other values: the copy is made anew, where it was.
  weight.host()[1] = 2;
  weight.upload();
  runtime.parameters_changed();
  for (int i = 0; i < 3; ++i) check_product(others[0], 60, i < 2 ? 5 : 6);
}

TEST_CASE("a device has a copy of a weight for each precision", "[ops]") {
  const auto device = testing::test_device();
  if (device == nullptr) return;
  // Not aligned for products.
  std::vector<float> w(7 * 4 + 1, 1);
  FloatBuffer weight(device, std::span(w));
  const std::vector<float> x(7, 2);
  for (const DType t : {DType::kBF16, DType::kF32, DType::kBF16, DType::kF32}) {
    Runtime runtime(1, t, false, device);
    Graph graph(runtime);
    const Expr y = linear(cast(graph.input({{1, 7}, DType::kF32}, x.data()), t),
                          graph.parameter({4, 7}, weight.data() + 1, nullptr));
    const Expr in_f32 = cast(y, DType::kF32);
    graph.run({in_f32});
    CHECK(copied(graph, in_f32) == std::vector<float>(4, 14));
  }
}

TEST_CASE("a device's weights of one allocation share a copy, which Adam keeps up to date", "[ops]") {
  const auto device = testing::test_device();
  if (device == nullptr) return;
  constexpr int64_t kWidth = 8, kSize = 2 * kWidth;  // two weights of a row
  std::vector<float> w(kSize, 1);
  FloatBuffer weights(device, std::span(w)), g(device, kSize), m(device, kSize), v(device, kSize);
  Runtime runtime(1, DType::kBF16, false, device);
  const std::vector<float> x(kWidth, 1);
  const auto check_products = [&](float first, float second) {
    Graph graph(runtime);
    const Expr in = cast(graph.input({{1, kWidth}, DType::kF32}, x.data()), DType::kBF16);
    const auto product = [&](int64_t i) {
      return cast(linear(in, graph.parameter({1, kWidth}, weights.data() + i * kWidth, nullptr)), DType::kF32);
    };
    const Expr a = product(0), b = product(1);
    graph.run({a, b});
    CHECK(copied(graph, a)[0] == first);
    CHECK(copied(graph, b)[0] == second);
  };
  // A step of `rate` against a gradient of 1, of n elements from `first` on.
  const auto update = [&](float rate, int64_t first, int64_t n) {
    for (float& gradient : g.host()) gradient = 1;
    g.upload();
    m.zero();
    v.zero();
    const Update made{.made = true, .adam = {rate, 0, 0, 0, 1, 1, 1, 0}};
    const Buffer there(device, sizeof made);
    device->upload(there.data(), &made, sizeof made);
    device->adam(runtime.pool(), reinterpret_cast<const Update*>(there.data()), n, g.data(), m.data(), v.data(),
                 weights.data() + first, nullptr);
    runtime.parameters_changed();
  };
  check_products(8, 8);
  update(0.5f, 0, kSize);
  check_products(4, 4);
  update(0.25f, kWidth, kWidth);  // another device has the first
  check_products(4, 2);
  update(-1, 0, kSize);
  check_products(12, 10);
  for (float& value : weights.host()) value = 3;
  weights.upload();
  runtime.parameters_changed();
  check_products(24, 24);
  weights.host()[kWidth] = 11;
  weights.upload();
  runtime.forget(weights.data() + kWidth);
  check_products(24, 32);
  weights = FloatBuffer(device, kSize);  // perhaps in the same place
  check_products(0, 0);
}

TEST_CASE("nobody waits for another one's weight to be packed", "[ops]") {
  PackedWeights weights(false);
  std::vector<float> slow(6, 1), quick(6, 2);
  const auto get = [&](std::vector<float>& w) {
    ThreadPool pool(1);
    return weights.get(pool, {w.data(), {{2, 3}, DType::kF32}}, DType::kF32, false).bytes();
  };
  std::future<int64_t> other;
  bool waited = false;
  weights.on_packed = [&](std::span<const float> values) {
    if (values.data() != slow.data()) return;
    other = std::async(std::launch::async, get, std::ref(quick));
    waited = other.wait_for(std::chrono::seconds(10)) != std::future_status::ready;
  };
  const int64_t bytes = get(slow);
  CHECK_FALSE(waited);
  CHECK(other.get() == bytes);
  CHECK(weights.bytes() == 2 * bytes);
}

TEST_CASE("a weight that changes is packed again both ways at once, where the other way is free", "[ops]") {
  ThreadPool pool(1);
  constexpr int64_t kRows = 70, kColumns = 34;
  std::vector<float> values(kRows * kColumns);
  const Tensor w{values.data(), {{kRows, kColumns}, DType::kF32}};
  const auto bytes_of = [](const cpu::PackedMatrix& m) {
    return std::vector<std::byte>(m.data(), m.data() + m.bytes());
  };
  const auto fresh = [&](DType t, bool transposed) {
    cpu::PackedMatrix packed;
    packed.pack(pool, t, values.data(), transposed ? kColumns : kRows, transposed ? kRows : kColumns, transposed);
    return bytes_of(packed);
  };
  for (const bool first : {false, true}) {
    PackedWeights weights(false);
    int packed = 0;
    weights.on_packed = [&](std::span<const float>) { ++packed; };
    DType t = DType::kF32;
    const auto check_both = [&](int times) {
      std::ranges::generate(values, [number = 0.f]() mutable { return number += 0.25f; });
      values.front() = static_cast<float>(packed);
      weights.parameters_changed();
      packed = 0;
      for (const bool transposed : {first, !first})
        CHECK(bytes_of(weights.get(pool, w, t, transposed)) == fresh(t, transposed));
      CHECK(packed == times);
    };
    check_both(2);
    check_both(1);
    if (!cpu::multiplies_bf16()) continue;
    t = DType::kBF16;  // what the other was packed as is not what is asked for
    check_both(2);
    check_both(1);
    CHECK(bytes_of(weights.get(pool, w, DType::kF32, first)) == fresh(DType::kF32, first));  // nothing has changed
  }
}

TEST_CASE("one matrix in several views is packed for each", "[ops]") {
  // Joined leaves begin where their first matrix does.
  Runtime runtime(1);
  const std::vector<float> x{1, 2}, w{1, 0, 0, 1, 1, 1, 2, 2};
  Graph graph(runtime);
  const Expr in = graph.input({{1, 2}, DType::kF32}, x.data());
  const Expr first = linear(in, graph.parameter({2, 2}, w.data(), nullptr));
  const Expr whole = linear(in, graph.parameter({4, 2}, w.data(), nullptr));
  graph.run({first, whole});
  CHECK(copied(graph, first) == std::vector<float>{1, 2});
  CHECK(copied(graph, whole) == std::vector<float>{1, 2, 3, 6});
}

TEST_CASE("a state is written by one graph and read by the next", "[ops]") {
  Runtime runtime(1);
  std::vector<float> keys(3 * 2, -1.f), values(3 * 2, -1.f);
  const auto step = [&](std::vector<float> qkv, int32_t slot, std::vector<int32_t> entry) {
    Graph graph(runtime);
    const auto length = static_cast<int32_t>(entry.size());
    const auto ints = [&](const Shape& shape, const int32_t* data) { return graph.input({shape, DType::kI32}, data); };
    const Expr y = cached_attention(graph.input({{1, 6}, DType::kF32}, qkv.data()),
                                    graph.state({{3, 2}, DType::kF32}, keys.data()),
                                    graph.state({{3, 2}, DType::kF32}, values.data()), ints({1}, &slot),
                                    ints({1, length}, entry.data()), ints({1}, &length), 1);
    graph.run({y});
    return copied(graph, y);
  };
  CHECK(step({0, 0, 1, 2, 3, 4}, 2, {2}) == std::vector<float>{3, 4});
  CHECK(keys == std::vector<float>{-1, -1, -1, -1, 1, 2});
  CHECK(values == std::vector<float>{-1, -1, -1, -1, 3, 4});
  const auto mean = step({0, 0, 5, 6, 7, 8}, 0, {2, 0});  // equal scores: the mean of both values
  CHECK(mean[0] == Approx(5));
  CHECK(mean[1] == Approx(6));
  CHECK(keys == std::vector<float>{5, 6, -1, -1, 1, 2});
  CHECK(runtime.plans_made() == 2);  // one and two entries
}

TEST_CASE("dropout is a function of seed, step and site", "[ops]") {
  Runtime runtime(2);
  const std::vector<float> ones(5000, 1.f);
  const auto masks = [&] {
    Graph graph(runtime);
    const Expr x = graph.input({{5000}, DType::kF32}, ones.data());
    const Expr a = dropout(x, 0.25f), b = dropout(x, 0.25f);
    CHECK(graph.dropout_sites() == 2);
    graph.run({a, b});
    return std::pair(copied(graph, a), copied(graph, b));
  };
  const auto first = masks();
  CHECK(first.first != first.second);
  CHECK(masks() == first);
  CHECK(runtime.plans_made() == 1);  // steps share a plan
  runtime.step = 1;
  CHECK(masks().first != first.first);
  runtime.step = 0;
  runtime.seed = 2;
  CHECK(masks().first != first.first);
  double sum = 0;
  for (const float v : first.first) {
    CHECK((v == 0 || v == 1 / (1 - 0.25f)));
    sum += v;
  }
  CHECK(sum / 5000 == Approx(1).margin(0.04));
}

TEST_CASE("the profile counts the products of attention by the sentences' lengths", "[ops]") {
  Runtime runtime(1);
  runtime.profile.times_ops = true;
  const int64_t tokens = 5;  // sentences of 2 and 3
  const std::vector<float> qkv(static_cast<size_t>(tokens * 3 * 8), 0.1f);
  const std::vector<int32_t> begin{0, 2, 5};
  const std::vector<int64_t> weights{0, 4, 13};
  // The pairs of a query and a key that it sees.
  const auto [mask, pairs] = GENERATE(std::pair(KeyMask(), 4 + 9), std::pair(KeyMask(true), 3 + 6),
                                      std::pair(KeyMask(false, 1), 4 + 7), std::pair(KeyMask(true, 1), 3 + 5));
  Graph graph(runtime, fusion_rules());
  const Expr x = graph.input({{tokens, 24}, DType::kF32}, qkv.data());
  const Expr begins = graph.input({{3}, DType::kI32}, begin.data());
  const Segments segments{begins, begins, graph.input({{3}, DType::kI64}, weights.data())};
  graph.run({attention(columns(x, 0, 8), columns(x, 8, 8), columns(x, 16, 8), 2, segments, mask, 0)});
  CHECK(runtime.profile.ops().at("attention").flops == 2 * pairs * 2 * (4 + 4));  // two heads of d_k = d_v = 4
}

TEST_CASE("the profile counts the products of attention over a cache by the keys that are seen", "[ops]") {
  Runtime runtime(1);
  runtime.profile.times_ops = true;
  const std::vector<float> qkv(2 * 24, 0.1f);
  std::vector<float> keys(6 * 8), values(6 * 8);
  const std::vector<int32_t> slot{4, 5}, entry{0, 1, 2, 3, 4, 0, 5, 0, 0, 0}, length{5, 2};
  const auto [window, pairs] = GENERATE(std::pair(0, 5 + 2), std::pair(2, 3 + 2), std::pair(1, 2 + 2));
  Graph graph(runtime);
  const auto ints = [&](const Shape& shape, const std::vector<int32_t>& v) {
    return graph.input({shape, DType::kI32}, v.data());
  };
  graph.run({cached_attention(graph.input({{2, 24}, DType::kF32}, qkv.data()),
                              graph.state({{6, 8}, DType::kF32}, keys.data()),
                              graph.state({{6, 8}, DType::kF32}, values.data()), ints({2}, slot), ints({2, 5}, entry),
                              ints({2}, length), 2, window)});
  CHECK(runtime.profile.ops().at("cached_attention").flops == 2 * pairs * 2 * (4 + 4));
}
