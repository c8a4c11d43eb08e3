// The ceiling of a model's speed: how fast oneDNN alone multiplies matrices of exactly its shapes, and how many target
// tokens a second that would be if nothing else took time. Beside it, how fast nmt multiplies them.
#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"
#include "base/aligned.h"
#include "bench/model_products.h"
#include "config/app.h"
#include "config/computing.h"

namespace nmt {
namespace {

struct GemmOptions {
  ModelConfig model;
  std::string work = "train", precision = "f32";
  int vocabulary = 32000, rows = 3000, beam = 4, repetitions = 5, threads = 0;
  double source_ratio = 1;

  void declare(Options& o) {
    model.declare(o);
    o.group("Work");
    o.add("work", work, "Products of an update, or of decoding a step").choices({"train", "decode"});
    o.add("precision", precision, "Of the products").choices({"f32", "bf16", "int8"});
    o.add("vocabulary", vocabulary, "Entries of the target vocabulary").range(1, 1e7);
    o.add("rows", rows, "Target tokens of a batch, or hypotheses of a step").range(1, 1e7);
    o.add("beam-size", beam, "Hypotheses a sentence, for decoding").range(1, 100);
    o.add("source-ratio", source_ratio, "Source tokens for one of the target").range(0.01, 100);
    o.add("repetitions", repetitions, "The best of so many counts").range(1, 1000);
    declare_threads(o, threads);
  }
};

constexpr uint8_t kFilling = 0x3c;  // bytes of operands: small numbers in all types

// Seconds of the best turn but the first, which warms up: turn(0), turn(1) ...
template <class Turn>
double best_of(int repetitions, Turn&& turn) {
  double best = 1e30;
  for (int i = 0; i <= repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    turn(i);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) best = std::min(best, seconds);
  }
  return best;
}

// y [m, n] = x [m, k] * B [k, n] with B packed as oneDNN wants it.
double seconds_of(const Product& p, const std::string& precision, int repetitions) {
  using dnnl::memory;
  const bool int8 = precision == "int8", bf16 = precision == "bf16";
  const auto narrow = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  auto& engine = cpu::onednn_engine();
  dnnl::stream stream(engine);
  const memory::desc x({p.m, p.k}, int8 ? memory::data_type::u8 : narrow, memory::format_tag::ab);
  const memory::desc any({p.k, p.n}, int8 ? memory::data_type::s8 : narrow, memory::format_tag::any);
  const memory::desc y({p.m, p.n}, int8 ? memory::data_type::s32 : narrow, memory::format_tag::ab);
  const auto descriptor = cpu::matmul_descriptor(x, any, y);
  const dnnl::matmul product(descriptor);
  const auto filled = [&](const memory::desc& d) {
    memory m(d, engine);
    std::fill_n(static_cast<uint8_t*>(m.get_data_handle()), d.get_size(), kFilling);
    return m;
  };
  auto a = filled(x), b = filled(descriptor.weights_desc()), c = filled(y);
  return best_of(repetitions, [&](int) {
    product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  });
}

// Those of bf16 in float32, where that is faster: oneDNN uses AVX512-BF16 also where it has half of float32's rate.
double ceiling_seconds(const Product& p, const std::string& precision, int repetitions) {
  const double seconds = seconds_of(p, precision, repetitions);
  return precision == "bf16" ? std::min(seconds, seconds_of(p, "f32", repetitions)) : seconds;
}

// The seconds of nmt, whose activations come from memory as a model's do: each turn takes other ones than those before
// it. B, and the gradient of a weight, are the same in all turns.
double seconds_of_nmt(ThreadPool& pool, const Product& p, const std::string& precision, int repetitions) {
  constexpr int64_t kBeyondCaches = 64 << 20;
  const DType t = precision == "f32" ? DType::kF32 : DType::kBF16;
  const auto size = static_cast<int64_t>(size_of(t));
  // x and y, or of a weight's gradient dy and x; written, else all their pages would be one of zeros.
  const int64_t first = p.m * p.k * size, second = (p.weight_gradient ? p.n * p.k : p.m * p.n) * size;
  const int64_t turns = std::max<int64_t>(repetitions + 1, kBeyondCaches / (first + second));
  AlignedVector<uint8_t> a(static_cast<size_t>(turns * first), kFilling),
      b(static_cast<size_t>(turns * second), kFilling);
  std::vector<float> w(static_cast<size_t>(p.weight_gradient ? p.m * p.n : p.n * p.k), 0.01f);
  cpu::PackedMatrix packed;
  if (!p.weight_gradient) packed.pack(pool, precision == "int8" ? DType::kI8 : t, w.data(), p.n, p.k, false);
  return best_of(repetitions, [&](int turn) {
    const uint8_t* x = a.data() + turn * first;
    uint8_t* y = b.data() + turn * second;
    if (p.weight_gradient)
      cpu::multiply_transposed(pool, t, p.k, p.m, p.n, x, y, w.data());
    else
      cpu::multiply(pool, packed, p.m, t, x, t, y);
  });
}

void run(GemmOptions& o) {
  o.model.validate();
  omp_set_num_threads(threads_or_all(o.threads));
  const bool train = o.work == "train";
  require(!train || o.precision != "int8", "there is no training in int8");
  // A step of decoding goes on with `rows` hypotheses and has encoded as many source tokens as its sentences write.
  const int64_t tokens = train ? o.rows : std::max(1, o.rows / o.beam);
  const auto source = static_cast<int64_t>(static_cast<double>(tokens) * o.source_ratio);
  double seconds = 0, flops = 0, seconds_nmt = 0;
  fmt::print("{:<38} {:>6} {:>6} {:>6} {:>6} {:>9} {:>9} {:>9}\n", "product", "m", "n", "k", "count", "ms", "GFLOP/s",
             "nmt's");
  const std::vector<Product> products = products_of(o.model, source, o.rows, o.vocabulary, train);
  std::vector<double> times;  // all before there are threads of nmt
  for (const Product& p : products) times.push_back(ceiling_seconds(p, o.precision, o.repetitions));
  ThreadPool pool(threads_or_all(o.threads));
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    const double time = times[i], time_nmt = seconds_of_nmt(pool, p, o.precision, o.repetitions);
    const double work = p.flops();
    fmt::print("{:<38} {:>6} {:>6} {:>6} {:>6} {:>9.3f} {:>9.1f} {:>9.1f}\n", p.name, p.m, p.n, p.k, p.count,
               time * 1e3, work / time * 1e-9, work / time_nmt * 1e-9);
    seconds += time * p.count;
    seconds_nmt += time_nmt * p.count;
    flops += work * p.count;
  }
  fmt::print("nmt's: {:.1f} ms, {:.1f} GFLOP/s\n", seconds_nmt * 1e3, flops / seconds_nmt * 1e-9);
  fmt::print("all: {:.1f} ms, {:.1f} GFLOP/s, {:.1f} MFLOP a target token: {:.0f} target tokens/s\n", seconds * 1e3,
             flops / seconds * 1e-9, flops / static_cast<double>(tokens) * 1e-6, static_cast<double>(tokens) / seconds);
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) {
  nmt::App app("bench_gemm", "The ceiling of a model's speed: oneDNN's rate on exactly its matrix products");
  nmt::GemmOptions options;
  options.declare(app.options());
  app.run([&] { nmt::run(options); });
  return app.main(argc, argv);
}
