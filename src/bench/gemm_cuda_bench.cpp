// The ceiling of training's speed on a device: how fast cuBLASLt, by the algorithms that its heuristics put first as
// nmt takes them, multiplies matrices of exactly a model's shapes, each as a layer's product has them or as the
// gradient of its weight, and how many target tokens a second that would be if nothing else took time.
#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/gemm.h"
#include "bench/model_products.h"
#include "config/app.h"

namespace nmt {
namespace {

struct GemmOptions {
  ModelConfig model;
  std::string precision = "bf16";
  int device = 0, vocabulary = 32000, rows = 25000, repetitions = 5;
  double source_ratio = 1;

  void declare(Options& o) {
    model.declare(o);
    o.group("Work");
    o.add("device", device, "Its number").range(0, 1e3);
    o.add("precision", precision, "Of the products").choices({"f32", "tf32", "bf16", "f16"});
    o.add("vocabulary", vocabulary, "Entries of the target vocabulary").range(1, 1e7);
    o.add("rows", rows, "Target tokens of a batch").range(1, 1e7);
    o.add("source-ratio", source_ratio, "Source tokens for one of the target").range(0.01, 100);
    o.add("repetitions", repetitions, "The median of so many counts").range(1, 1000);
  }
};

// Operands are random, as products of equal numbers need less power and are faster: signs and mantissas are, of numbers
// from 0.5 to 2 (float16: 1).
cuda::DeviceMemory random_memory(cuda::Device& device, int64_t elements, DType t) {
  std::minstd_rand random(1);
  std::vector<uint16_t> halves(1 << 20);
  for (uint16_t& half : halves)
    half =
        static_cast<uint16_t>(t == DType::kF16 ? (random() >> 8 & 0x83ff) | 0x3800 : (random() >> 8 & 0x80ff) | 0x3f00);
  cuda::DeviceMemory memory(device, static_cast<size_t>(elements) * size_of(t));
  const size_t part = halves.size() * sizeof(uint16_t);
  for (size_t begin = 0; begin < memory.bytes(); begin += part)
    device.upload(static_cast<std::byte*>(memory.data()) + begin, halves.data(),
                  std::min(part, memory.bytes() - begin));
  return memory;
}

// One of several in a row, as many as take the device some milliseconds.
double seconds_of(cuda::Device& device, cuda::Products& products, const Product& p, DType t, int repetitions) {
  const cuda::Product product{.transpose_a = p.weight_gradient,
                              .transpose_b = !p.weight_gradient,
                              .m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .t = t,
                              .ty = p.weight_gradient ? DType::kF32 : t,
                              .accumulate = p.weight_gradient};
  const auto a = random_memory(device, p.m * p.k, t), b = random_memory(device, p.k * p.n, t);
  const cuda::DeviceMemory y(device, static_cast<size_t>(p.m * p.n) * size_of(product.ty));
  device.zero(y.data(), y.bytes());
  const auto in_a_row = static_cast<int>(std::clamp(2e12 / p.flops(), 1.0, 1000.0));
  std::vector<double> times;
  for (int i = 0; i <= repetitions; ++i) {  // the first warms up
    device.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int j = 0; j < in_a_row; ++j) products.multiply(product, a.data(), b.data(), y.data());
    device.synchronize();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / in_a_row);
  }
  std::sort(times.begin() + 1, times.end());
  return times[1 + static_cast<size_t>(repetitions) / 2];
}

void run(GemmOptions& o) {
  o.model.validate();
  const auto source = static_cast<int64_t>(o.rows * o.source_ratio);
  cuda::Device device(o.device);
  cuda::Products products(device);
  products.tf32 = o.precision == "tf32";
  const DType t = o.precision == "bf16" ? DType::kBF16 : o.precision == "f16" ? DType::kF16 : DType::kF32;
  double seconds = 0, flops = 0;
  fmt::print("{}\n{:<38} {:>6} {:>6} {:>6} {:>6} {:>9} {:>9}\n", device.info().name, "product", "m", "n", "k", "count",
             "ms", "TFLOP/s");
  for (const Product& p : products_of(o.model, source, o.rows, o.vocabulary, true)) {
    const double time = seconds_of(device, products, p, t, o.repetitions);
    fmt::print("{:<38} {:>6} {:>6} {:>6} {:>6} {:>9.4f} {:>9.1f}\n", p.name, p.m, p.n, p.k, p.count, time * 1e3,
               p.flops() / time * 1e-12);
    seconds += time * p.count;
    flops += p.flops() * p.count;
  }
  fmt::print("all: {:.3f} ms, {:.1f} TFLOP/s, {:.1f} MFLOP a target token: {:.0f} target tokens/s\n", seconds * 1e3,
             flops / seconds * 1e-12, flops / o.rows * 1e-6, o.rows / seconds);
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) {
  nmt::App app("bench_gemm_cuda", "The ceiling of a model's speed on a device: cuBLASLt's rate on its shapes");
  nmt::GemmOptions options;
  options.declare(app.options());
  app.run([&] { nmt::run(options); });
  return app.main(argc, argv);
}
