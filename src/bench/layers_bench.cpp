// Table 1 of "Attention Is All You Need": what layers cost that map n vectors of width d to n others. Each layer is one
// sentence's, alone: attention without its projections, as the paper counts it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/philox.h"
#include "config/app.h"
#include "config/computing.h"
#include "graph/runtime.h"
#include "ops/additive_attention.h"
#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/fusion.h"
#include "ops/linear.h"
#include "ops/recurrence.h"

namespace nmt {
namespace {

struct LayersOptions {
  std::vector<int> lengths = {256, 512, 1024, 2048}, widths = {128, 256, 512, 1024};
  int length = 512, width = 256, head_width = 64, window = 32, kernel = 3, repetitions = 7, threads = 1;
  std::string precision = "f32", length_curves, width_curves;

  void declare(Options& o) {
    o.add("lengths", lengths, "Lengths n, at the width --width");
    o.add("widths", widths, "Widths d, at the length --length");
    o.add("length", length, "n of the table, and of the widths").range(2, 1 << 20);
    o.add("width", width, "d of the table, and of the lengths").range(1, 1 << 16);
    o.add("head-width", head_width, "Width of a head of attention, which must divide all widths").range(1, 1 << 16);
    o.add("window", window, "r of restricted attention: a position sees half as many on either side").range(1, 1 << 20);
    o.add("kernel-width", kernel, "k of convolutions").range(2, 1000);
    o.add("repetitions", repetitions, "The best of so many counts").range(1, 1000);
    o.add("precision", precision, "Of products and activations").choices({"f32", "bf16"});
    o.add("length-curves", length_curves, "Write milliseconds by length here, a table for contrib/plots/curves-svg");
    o.add("width-curves", width_curves, "The same by width");
    declare_threads(o, threads);
  }

  void validate() const {
    require(lengths.size() >= 2 && widths.size() >= 2, "--lengths and --widths: an exponent needs two of them");
    for (const int n : lengths) require(n >= 2, "--lengths: {} is too short", n);
    for (const int d : widths)
      require(d >= 1 && d % head_width == 0, "--widths: heads of {} do not divide {}", head_width, d);
    require(width % head_width == 0, "--width: heads of {} do not divide {}", head_width, width);
  }
};

// A sentence of n random vectors, and a square matrix for each offset of a convolution.
struct Inputs {
  Inputs(int64_t n, int64_t d, int64_t kernel, DType t)
      : n(n), d(d), x(static_cast<size_t>(n * d) * size_of(t)), weights(static_cast<size_t>(kernel * d * d)) {
    Random random(1);
    std::vector<float> values(static_cast<size_t>(n * d));
    for (float& v : values) v = static_cast<float>(random.uniform() - 0.5);
    cpu::convert(DType::kF32, values.data(), t, x.data(), n * d);
    for (float& v : weights) v = static_cast<float>((random.uniform() - 0.5) / std::sqrt(static_cast<double>(d)));
  }

  int64_t n, d;
  std::vector<std::byte> x;
  std::vector<float> weights;
  std::vector<int32_t> begin = {0, static_cast<int32_t>(n)};
  std::vector<int64_t> weight_begin = {0, n* n};
};

struct Layer {
  const char* name;
  const char* paper;  // complexity per layer
  std::function<Expr(Expr x, Expr begin, const Inputs& inputs)> build;
};

std::vector<Layer> layers(const LayersOptions& o) {
  const auto attend = [&o](KeyMask mask) {
    return [&o, mask](Expr x, Expr begin, const Inputs& inputs) {
      const Expr weights = x.graph().input({{2}, DType::kI64}, inputs.weight_begin.data());
      return attention(x, x, x, static_cast<int>(inputs.d) / o.head_width, {begin, begin, weights}, mask, 0);
    };
  };
  const auto matrix = [](Expr x, const Inputs& inputs, int64_t columns) {
    return x.graph().parameter({inputs.d, columns}, inputs.weights.data(), nullptr);
  };
  return {
      {"self-attention", "n^2 d", attend({})},
      {"recurrent", "n d^2",
       [=](Expr x, Expr begin, const Inputs& inputs) {
         const Expr w = matrix(x, inputs, inputs.d);
         return recurrence(linear(x, w), w, begin, false);
       }},
      {"convolutional", "k n d^2",
       [=, &o](Expr x, Expr begin, const Inputs& inputs) {
         return linear(neighbours(x, begin, -(o.kernel / 2), o.kernel), matrix(x, inputs, o.kernel * inputs.d));
       }},
      {"self-attention (restricted)", "r n d", attend({false, o.window / 2})},
      {"self-attention (additive)", "n^2 d", [=, &o](Expr x, Expr begin, const Inputs& inputs) {
         const Expr weights = x.graph().input({{2}, DType::kI64}, inputs.weight_begin.data());
         const Expr w = x.graph().parameter({inputs.d / o.head_width, o.head_width}, inputs.weights.data(), nullptr);
         return additive_attention(x, x, x, w, {begin, begin, weights}, {}, 0);
       }}};
}

struct Measured {
  double seconds = 1e30, flops = 0;
  int64_t reach = 0;       // positions from the first to the last whose result it changes
  int64_t sequential = 1;  // operations that wait for one another
};

Measured measure(const Layer& layer, const LayersOptions& o, int64_t n, int64_t d) {
  Runtime runtime(threads_or_all(o.threads), o.precision == "bf16" ? DType::kBF16 : DType::kF32);
  runtime.profile.times_ops = true;
  Inputs inputs(n, d, o.kernel, runtime.compute());
  Measured m;
  const auto run = [&] {
    Graph graph(runtime, fusion_rules());
    const Expr x = graph.input({{n, d}, runtime.compute()}, inputs.x.data());
    const Expr y = cast(layer.build(x, graph.input({{2}, DType::kI32}, inputs.begin.data()), inputs), DType::kF32);
    // What the planner counts; a run of the graph is what takes time, not to make it.
    const auto begin = std::chrono::steady_clock::now();
    graph.run({y});
    m.seconds = std::min(m.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (const Node& node : graph.nodes())
      if (node.op && node.op.as<Recurrence>() != nullptr) m.sequential = n;  // a state waits for the one before
    const float* values = graph.data<float>(y);
    return std::vector<float>(values, values + n * d);
  };
  const auto before = run();  // packs the weights
  m.seconds = 1e30;
  for (const auto& [name, op] : runtime.profile.ops()) m.flops += name == Cast::kName ? 0 : op.flops;
  for (int i = 0; i < o.repetitions; ++i) run();
  std::fill_n(inputs.x.begin(), static_cast<size_t>(d) * size_of(runtime.compute()), std::byte{0});
  const auto after = run();
  for (int64_t i = 0; i < n * d; ++i)
    if (before[static_cast<size_t>(i)] != after[static_cast<size_t>(i)]) m.reach = i / d;
  return m;
}

// The slope of log y over log x by least squares.
double exponent(const std::vector<int>& x, const std::vector<double>& y) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  const auto count = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = std::log(x[i]), b = std::log(y[i]);
    sx += a;
    sy += b;
    sxx += a * a;
    sxy += a * b;
  }
  return (count * sxy - sx * sy) / (count * sxx - sx * sx);
}

struct Exponents {
  double flops, seconds;
};
Exponents exponents(const std::vector<int>& x, const std::vector<Measured>& measured) {
  std::vector<double> flops, seconds;
  for (const Measured& m : measured) {
    flops.push_back(m.flops);
    seconds.push_back(m.seconds);
  }
  return {exponent(x, flops), exponent(x, seconds)};
}

// A table of milliseconds, a row for each x and a column for each layer.
void write_curves(const std::string& path, const char* name, const std::vector<int>& x,
                  const std::vector<Layer>& layers, const std::vector<std::vector<Measured>>& measured) {
  if (path.empty()) return;
  std::string text = name;
  for (const Layer& layer : layers) text += fmt::format("\t{}", layer.name);
  for (size_t i = 0; i < x.size(); ++i) {
    text += fmt::format("\n{}", x[i]);
    for (const auto& of_layer : measured) text += fmt::format("\t{:.6g}", of_layer[i].seconds * 1e3);
  }
  AtomicFile file(path);
  file.write(text + "\n");
  file.commit();
}

void run(const LayersOptions& o) {
  o.validate();
  std::vector<std::vector<Measured>> all_by_length, all_by_width;
  const auto kinds = layers(o);
  fmt::print("n = {}, d = {}, r = {}, k = {}; {}, {} threads. Exponents: arithmetic / time\n", o.length, o.width,
             o.window, o.kernel, o.precision, threads_or_all(o.threads));
  fmt::print("{:<28} {:>8} {:>10} {:>10} {:>13} {:>13} {:>10} {:>10}\n", "layer", "paper", "MFLOP", "ms", "of n",
             "of d", "sequential", "path");
  for (const Layer& layer : kinds) {
    std::vector<Measured> by_length, by_width;
    for (const int n : o.lengths) by_length.push_back(measure(layer, o, n, o.width));
    for (const int d : o.widths) by_width.push_back(measure(layer, o, o.length, d));
    const Measured m = measure(layer, o, o.length, o.width);
    const Exponents of_n = exponents(o.lengths, by_length), of_d = exponents(o.widths, by_width);
    // From the first position to the last: through as many layers as it takes, each as deep as its sequence.
    const int64_t stacked = m.reach == 0 ? 0 : (o.length - 1 + m.reach - 1) / m.reach;
    fmt::print("{:<28} {:>8} {:>10.1f} {:>10.3f} {:>5.2f} / {:>5.2f} {:>5.2f} / {:>5.2f} {:>10} {:>10}\n", layer.name,
               layer.paper, m.flops * 1e-6, m.seconds * 1e3, of_n.flops, of_n.seconds, of_d.flops, of_d.seconds,
               m.sequential, stacked * m.sequential);
    all_by_length.push_back(std::move(by_length));
    all_by_width.push_back(std::move(by_width));
  }
  write_curves(o.length_curves, "length", o.lengths, kinds, all_by_length);
  write_curves(o.width_curves, "width", o.widths, kinds, all_by_width);
}

}  // namespace
}  // namespace nmt

int main(int argc, char** argv) {
  nmt::App app("bench_layers", "Table 1 of the paper: time and arithmetic of a layer by length and width");
  nmt::LayersOptions options;
  options.declare(app.options());
  app.run([&] { nmt::run(options); });
  return app.main(argc, argv);
}
