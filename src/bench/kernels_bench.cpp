// The speed of every CPU kernel in one thread: bytes that must be read and written per second (compare with the copy,
// which is what memory gives) and items (elements) per second.
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "backend/cpu/kernels.h"
#include "base/philox.h"

namespace {

using namespace nmt;

constexpr int64_t kElements = int64_t{1} << 24;  // of a large tensor: far beyond L2
constexpr int64_t kWidth = 512;
constexpr int64_t kRows = kElements / kWidth;
constexpr int64_t kVocabulary = 37000;

// Tensors of small random numbers, made once.
std::vector<float>& floats(size_t which) {
  static std::vector<std::vector<float>> all(6);
  auto& x = all.at(which);
  if (x.empty()) {
    x.resize(static_cast<size_t>(kElements));
    Random random(which);
    for (float& v : x) v = static_cast<float>(random.uniform() * 4 - 2);
  }
  return x;
}

void* tensor(DType t, size_t which) {
  static std::vector<std::vector<uint16_t>> all(6);
  if (t == DType::kF32) return floats(which).data();
  auto& x = all.at(which);
  if (x.empty()) {
    x.resize(static_cast<size_t>(kElements));
    cpu::convert(DType::kF32, floats(which).data(), DType::kBF16, x.data(), kElements);
  }
  return x.data();
}

struct Work {
  int64_t elements, bytes;
};

void run(benchmark::State& state, Work work, const std::function<void()>& kernel) {
  kernel();  // tensors are made, pages mapped
  for (auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * work.elements);
  state.SetBytesProcessed(state.iterations() * work.bytes);
}

void bench(const std::string& name, Work work, std::function<void()> kernel) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, work, kernel); });
}

void register_typed(DType t) {
  const auto size = static_cast<int64_t>(size_of(t));
  const auto name = [&](const char* kernel) { return std::string(kernel) + "/" + std::string(name_of(t)); };
  const auto streams = [&](int64_t n) { return Work{kElements, n * kElements * size}; };
  const Dropout none, some{.rate = 0.1f, .site = 1, .step = 2, .seed = 3};
  static std::vector<float> scale(kWidth, 1), bias(kWidth, 0), stats(2 * kRows, 1), dscale(kWidth), dbias(kWidth);
  static std::vector<int32_t> ids(kRows), positions(kRows), order(kRows);
  for (size_t r = 0; r < ids.size(); ++r) {
    ids[r] = static_cast<int32_t>(r * 7919 % 8000);
    positions[r] = static_cast<int32_t>(r % 64);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [](int32_t a, int32_t b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });

  bench(name("copy"), streams(2),
        [=] { std::memcpy(tensor(t, 1), tensor(t, 0), static_cast<size_t>(kElements * size)); });
  bench(name("dropout"), streams(2), [=] { cpu::dropout(t, some, 0, kElements, tensor(t, 0), tensor(t, 1)); });
  bench(name("dropout_in_L1"), {2048, 2048 * 2 * size},
        [=] { cpu::dropout(t, some, 0, 2048, tensor(t, 0), tensor(t, 1)); });
  for (const bool drop : {false, true}) {
    const auto& d = drop ? some : none;
    const std::string suffix = drop ? "+dropout" : "";
    bench(name("add_layer_norm") + suffix, streams(4), [=] {
      cpu::add_dropout_layer_norm(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1), d, scale.data(), bias.data(),
                                  1e-6f, tensor(t, 2), tensor(t, 3), stats.data());
    });
    bench(name("layer_norm_backward") + suffix, streams(4), [=] {
      cpu::layer_norm_backward(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1), stats.data(), scale.data(), d,
                               tensor(t, 2), tensor(t, 3), dscale.data(), dbias.data());
    });
    bench(name("embed") + suffix, {kElements, kElements * (4 + size)}, [=] {
      cpu::embed(t, {0, kRows}, kWidth, floats(0).data(), ids.data(), floats(1).data(), positions.data(), 22, d,
                 tensor(t, 2));
    });
    bench(name("embed_backward") + suffix, streams(1), [=] {
      cpu::embed_backward(t, {0, kRows}, kWidth, tensor(t, 0), ids.data(), order.data(), 22, d, floats(5).data());
    });
  }
  bench(name("softmax"), streams(2), [=] { cpu::softmax(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1)); });
  bench(name("softmax_in_L1"), {4 * kWidth, 8 * kWidth * size}, [=] {
    cpu::softmax(t, {0, 4}, kWidth, tensor(t, 0), tensor(t, 1));
  });
  bench(name("softmax_backward"), streams(3), [=] {
    cpu::softmax_backward(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1), tensor(t, 2));
  });
  bench(name("log_softmax"), streams(2), [=] { cpu::log_softmax(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1)); });
  bench(name("log_softmax_backward"), streams(3), [=] {
    cpu::log_softmax_backward(t, {0, kRows}, kWidth, tensor(t, 0), tensor(t, 1), tensor(t, 2));
  });

  const int64_t rows = kElements / kVocabulary;
  static std::vector<int32_t> labels(static_cast<size_t>(kRows), 11);
  static std::vector<float> loss(static_cast<size_t>(kRows));
  const int64_t tile = 512;
  static std::vector<float> looked(static_cast<size_t>(cpu::LogitTiles::floats(rows, kVocabulary, tile)));
  const auto cross_entropy = [=](void* dlogits) {
    const auto tiles = cpu::LogitTiles::in(looked.data(), rows, kVocabulary, tile);
    for (int64_t i = 0; i < tiles.tiles(); ++i)
      cpu::look_at_logits(t, tiles, {0, rows}, i, floats(0).data() + i * tile * rows, labels.data(), dlogits);
    cpu::cross_entropy(t, tiles, {0, rows}, labels.data(), 0.1f, 1, loss.data(), nullptr, dlogits);
  };
  bench(name("cross_entropy"), {rows * kVocabulary, rows * kVocabulary * (4 + 3 * size)},
        [=] { cross_entropy(tensor(t, 1)); });
  bench(name("cross_entropy_forward"), {rows * kVocabulary, rows * kVocabulary * 4}, [=] { cross_entropy(nullptr); });

  const auto unary = [&](const char* kernel, auto f) {
    bench(name(kernel), streams(2), [=] { f(t, 0, kElements, tensor(t, 0), tensor(t, 1)); });
  };
  const auto binary = [&](const char* kernel, auto f) {
    bench(name(kernel), streams(3), [=] { f(t, 0, kElements, tensor(t, 0), tensor(t, 1), tensor(t, 2)); });
  };
  unary("relu", cpu::relu);
  unary("gelu", cpu::gelu);
  unary("silu", cpu::silu);
  unary("scale", [](DType type, int64_t b, int64_t e, const void* x, void* y) { cpu::scale(type, b, e, x, 2, y); });
  binary("relu_backward", cpu::relu_backward);
  binary("gelu_backward", cpu::gelu_backward);
  binary("silu_backward", cpu::silu_backward);
  binary("add", cpu::add);
  binary("multiply", cpu::multiply);
  bench(name("column_sums"), streams(1), [=] { cpu::column_sums(t, {0, kRows}, kWidth, tensor(t, 0), dbias.data()); });
}

void register_others() {
  bench("dropout_mask", {kElements, kElements}, [] {
    const Dropout d{.rate = 0.1f, .site = 1, .step = 2, .seed = 3};
    cpu::dropout_mask(d, 0, kElements, static_cast<uint8_t*>(tensor(DType::kBF16, 1)));
  });
  bench("convert/f32_to_bf16", {kElements, 6 * kElements},
        [] { cpu::convert(DType::kF32, floats(0).data(), DType::kBF16, tensor(DType::kBF16, 1), kElements); });
  bench("convert/bf16_to_f32", {kElements, 6 * kElements},
        [] { cpu::convert(DType::kBF16, tensor(DType::kBF16, 0), DType::kF32, floats(1).data(), kElements); });
  for (const int64_t width : {kWidth, int64_t{2048}}) {
    const int64_t height = kElements / width;
    bench("transpose/" + std::to_string(height) + "x" + std::to_string(width), {kElements, 8 * kElements},
          [=] { cpu::transpose(height, width, floats(0).data(), width, floats(1).data(), height); });
  }
  bench("add_f32", {kElements, 12 * kElements}, [] { cpu::add_f32(0, kElements, floats(0).data(), floats(1).data()); });
  const Adam adam{.rate = 1e-4f,
                  .beta1 = 0.9f,
                  .beta2 = 0.98f,
                  .eps = 1e-9f,
                  .correction1 = 0.5f,
                  .correction2 = 0.5f,
                  .grad_scale = 1,
                  .smoothing = 1e-4f};
  for (const bool averaged : {false, true}) {
    bench(averaged ? "adam+average" : "adam", {kElements, (averaged ? 40 : 32) * kElements}, [=] {
      static std::vector<float> second(static_cast<size_t>(kElements), 1e-2f);
      cpu::adam(adam, 0, kElements, floats(0).data(), floats(1).data(), second.data(), floats(3).data(),
                averaged ? floats(4).data() : nullptr);
    });
  }
  bench("sum_of_squares", {kElements, 4 * kElements},
        [] { benchmark::DoNotOptimize(cpu::sum_of_squares(floats(2).data(), kElements)); });
  for (const int k : {4, 200}) {
    bench("find_best/" + std::to_string(k), {kVocabulary, 4 * kVocabulary}, [=] {
      static std::vector<float> values(200);
      static std::vector<int32_t> indices(200);
      cpu::BestLogits best;
      cpu::find_best(floats(2).data(), kVocabulary, 0, k, best, values.data(), indices.data());
    });
  }
}

[[maybe_unused]] const bool registered = [] {
  benchmark::AddCustomContext("instruction set", cpu::instruction_set());
  register_typed(DType::kF32);
  register_typed(DType::kBF16);
  register_others();
  return true;
}();

}  // namespace
