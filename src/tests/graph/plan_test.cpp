// Plans: liveness, memory, the cache, the table. Random graphs of an op that has any number of inputs and outputs,
// scratch memory and in-place reuse.
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "base/philox.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "tests/catch.h"

using namespace nmt;

namespace {

// Outputs are a function of all inputs' elements and `salt`. Fills its scratch with what must harm nobody.
struct Mix {
  static constexpr std::string_view kName = "mix";
  static constexpr int kMost = 3;
  uint32_t salt;
  int32_t outputs, reused;
  int64_t scratch_bytes;
  int64_t lengths[kMost];

  std::vector<Spec> infer(std::span<const Spec>) const {
    std::vector<Spec> specs;
    for (int o = 0; o < outputs; ++o) specs.push_back({{lengths[o]}, DType::kI32});
    return specs;
  }
  void backward(Backprop&) const {}
  int64_t scratch(std::span<const Spec>) const { return scratch_bytes; }
  int in_place() const { return reused; }
  double flops(std::span<const Tensor>) const { return 2e6; }
  void cpu(const Launch& l) const {
    uint32_t h = salt;
    for (const Tensor& x : l.in)
      for (int64_t i = 0; i < x.elements(); ++i) h = (h ^ x.as<uint32_t>()[i]) * 0x9E3779B1u + 1;
    if (scratch_bytes > 0) std::fill_n(l.scratch, scratch_bytes, std::byte{0xAB});
    for (const Tensor& y : l.out)
      for (int64_t i = 0; i < y.elements(); ++i) y.as<uint32_t>()[i] = h = h * 0x85EBCA6Bu + static_cast<uint32_t>(i);
  }
  bool operator==(const Mix&) const = default;
};

const std::vector<int32_t> kData(64, 7);

// A graph of `count` random nodes, and some of its values as outputs.
std::vector<Expr> random_graph(Graph& graph, uint64_t seed, int count) {
  Random random(seed);
  std::vector<Expr> values{graph.input({{64}, DType::kI32}, kData.data())};
  for (int n = 0; n < count; ++n) {
    Mix op{static_cast<uint32_t>(n),
           1 + static_cast<int32_t>(random.below(Mix::kMost)),
           static_cast<int32_t>(random.below(4)) - 1,
           static_cast<int64_t>(random.below(2) * random.below(500)),
           {}};
    std::vector<Expr> inputs;
    for (uint64_t i = 0; i < 1 + random.below(3); ++i) {
      // Mostly recent values, so that others die.
      const uint64_t back = std::min<uint64_t>(values.size(), random.below(4) == 0 ? values.size() : 6);
      inputs.push_back(values[values.size() - 1 - random.below(back)]);
    }
    for (int o = 0; o < op.outputs; ++o)
      op.lengths[o] = static_cast<int64_t>(random.below(8) == 0 ? 0 : random.below(100));
    // Often as large as an input, so that memory is taken over.
    if (op.reused >= 0 && static_cast<size_t>(op.reused) < inputs.size() && random.below(2) == 0)
      op.lengths[0] = inputs[static_cast<size_t>(op.reused)].shape().elements();
    const Expr first = graph.append(op, inputs);
    for (int o = 0; o < op.outputs; ++o) values.push_back(first.output(o));
  }
  std::vector<Expr> outputs{values.back()};
  for (const Expr& value : values)
    if (random.below(8) == 0) outputs.push_back(value);
  return outputs;
}

std::vector<Value> values_of(const std::vector<Expr>& expressions) {
  std::vector<Value> values;
  for (const Expr& e : expressions) values.push_back(e.value());
  return values;
}

struct Block {
  Value value;               // of scratch: output -1
  size_t birth, death;       // steps; the last step that reads it
  int64_t begin, end;        // bytes of the arena
  int32_t in_place_of = -1;  // a block whose memory it may take over at its birth
};

// Who lives where and when, worked out from the graph alone; only offsets are the plan's.
std::vector<Block> blocks_of(const Graph& graph, const Plan& plan, const std::vector<Value>& outputs) {
  std::vector<Block> blocks;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto& step = plan.steps[s];
    const Node& node = graph.nodes()[static_cast<size_t>(step.node)];
    REQUIRE(step.offsets.size() == node.outputs.size());
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Value value{step.node, static_cast<int32_t>(o)};
      Block block{value, s, s, step.offsets[o], step.offsets[o] + node.outputs[o].bytes()};
      for (size_t later = s + 1; later < plan.steps.size(); ++later) {
        const auto& inputs = graph.nodes()[static_cast<size_t>(plan.steps[later].node)].inputs;
        if (std::ranges::find(inputs, value) != inputs.end()) block.death = later;
      }
      if (std::ranges::find(outputs, value) != outputs.end()) block.death = plan.steps.size();
      const int reused = node.op.in_place();
      if (o == 0 && reused >= 0 && static_cast<size_t>(reused) < node.inputs.size())
        for (size_t b = 0; b < blocks.size(); ++b)
          if (const Value v = node.inputs[static_cast<size_t>(reused)];
              blocks[b].value == v && std::ranges::count(node.inputs, v) == 1)
            block.in_place_of = static_cast<int32_t>(b);
      blocks.push_back(block);
    }
    std::vector<Spec> specs;
    for (const Value& v : node.inputs) specs.push_back(graph.spec(v));
    if (const int64_t bytes = node.op.scratch(specs, true); bytes > 0)
      blocks.push_back({{step.node, -1}, s, s, step.scratch, step.scratch + bytes});
  }
  return blocks;
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

TEST_CASE("no two living tensors share memory, and every run is right", "[graph]") {
  int reused = 0, disjoint_lives = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Runtime runtime(1);
    Graph graph(runtime);
    const auto outputs = random_graph(graph, seed, 3 + static_cast<int>(seed % 40));
    graph.run(outputs);
    const auto wanted = values_of(outputs);
    const Plan plan = Plan::make(graph, wanted);
    const auto blocks = blocks_of(graph, plan, wanted);
    int64_t end = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      const Block& y = blocks[b];
      CHECK(y.begin >= 0);
      CHECK(y.begin % Plan::kAlign == 0);
      end = std::max(end, y.begin + aligned(y.end - y.begin));
      for (size_t a = 0; a < b; ++a) {
        const Block& x = blocks[a];
        if (std::max(x.begin, y.begin) >= std::min(x.end, y.end)) continue;
        const bool takes_over = y.in_place_of == static_cast<int32_t>(a) && x.death == y.birth && x.begin == y.begin;
        reused += takes_over;
        disjoint_lives += x.death < y.birth;
        CHECK((x.death < y.birth || takes_over));
      }
    }
    CHECK(end == plan.bytes);
    CHECK(runtime.arena_bytes() == std::max<int64_t>(plan.bytes, 64));
    // Only what the outputs need is computed, each node once, in order.
    std::vector<bool> needed(graph.nodes().size());
    for (const Value& v : wanted) needed[static_cast<size_t>(v.node)] = true;
    for (size_t n = graph.nodes().size(); n-- > 0;)
      if (needed[n])
        for (const Value& v : graph.nodes()[n].inputs) needed[static_cast<size_t>(v.node)] = true;
    std::vector<int32_t> expected, planned;
    for (size_t n = 0; n < needed.size(); ++n)
      if (needed[n] && graph.nodes()[n].op) expected.push_back(static_cast<int32_t>(n));
    for (const auto& step : plan.steps) planned.push_back(step.node);
    CHECK(planned == expected);

    // The same graph where everything is an output: nothing is reused.
    std::vector<Expr> all;
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      for (size_t o = 0; o < graph.nodes()[n].outputs.size(); ++o)
        all.emplace_back(&graph, Value{static_cast<int32_t>(n), static_cast<int32_t>(o)});
    const auto copy = [&] {
      std::vector<std::vector<uint32_t>> contents;
      for (const Expr& e : outputs) {
        const auto* data = graph.data<uint32_t>(e);
        contents.emplace_back(data, data + e.shape().elements());
      }
      return contents;
    };
    const auto with_reuse = copy();
    graph.run(all);
    CHECK(copy() == with_reuse);
  }
  CHECK(reused > 100);  // the property was put to the test
  CHECK(disjoint_lives > 1000);
}

TEST_CASE("memory is reused: a long chain needs two tensors", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime);
  Expr x = graph.input({{64}, DType::kI32}, kData.data());
  for (uint32_t n = 0; n < 50; ++n) x = graph.append(Mix{n, 1, -1, 0, {64}}, {x});
  graph.run({x});
  CHECK(runtime.arena_bytes() == 2 * 256);
  Graph chain(runtime);
  x = chain.input({{64}, DType::kI32}, kData.data());
  for (uint32_t n = 0; n < 50; ++n) x = chain.append(Mix{n, 1, 0, 0, {64}}, {x});
  chain.run({x});
  CHECK(Plan::make(chain, values_of({x})).bytes == 256);  // in place: one
  CHECK(runtime.arena_bytes() == 2 * 256);                // the arena does not shrink
}

TEST_CASE("the process grows by a plan's bytes", "[graph]") {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    int64_t pages = 0;
    file >> pages >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
  };
  constexpr int64_t kLength = 16 << 20;  // 64 MB
  Runtime runtime(1);
  Graph graph(runtime);
  Expr x = graph.input({{64}, DType::kI32}, kData.data());
  for (uint32_t n = 0; n < 4; ++n) x = graph.append(Mix{n, 2, -1, 1 << 20, {kLength, kLength / 2}}, {x});
  const int64_t before = resident();
  graph.run({x, x.output(1)});
  const auto grown = static_cast<double>(resident() - before);
  CHECK(grown == Approx(static_cast<double>(runtime.arena_bytes())).epsilon(0.05));
  CHECK(runtime.arena_bytes() < 4 * kLength * 6 * 3 / 4);
}

TEST_CASE("plans are made once for graphs that look the same", "[graph]") {
  Runtime runtime(1);
  const std::vector<float> a(35, 1.f), b(35, 2.f);
  const auto run = [&](int64_t rows, const std::vector<float>& data, float value, int outputs = 1) {
    Graph graph(runtime);
    const Expr x = graph.input({{rows, 5}, DType::kF32}, data.data());
    const Expr y = add(x, fill(graph, x.spec(), value)), z = add(y, y);
    outputs == 1 ? graph.run({z}) : graph.run({z, y});
    return graph.data<float>(z)[0];
  };
  CHECK(run(7, a, 1) == 4);
  CHECK(runtime.plans_made() == 1);
  CHECK(run(7, b, 1) == 6);  // other data
  CHECK(run(7, a, 1) == 4);
  CHECK(runtime.plans_made() == 1);
  CHECK(run(6, a, 1) == 4);  // another shape
  CHECK(runtime.plans_made() == 2);
  CHECK(run(7, a, 2) == 6);  // another attribute of an op
  CHECK(runtime.plans_made() == 3);
  CHECK(run(7, a, 1, 2) == 4);  // other outputs
  CHECK(runtime.plans_made() == 4);
  CHECK(run(7, a, 1) == 4);
  CHECK(run(6, b, 1) == 6);
  CHECK(runtime.plans_made() == 4);
  for (int i = 0; i < 600; ++i)
    REQUIRE(run(7, a, static_cast<float>(i)) == 2 * (1 + static_cast<float>(i)));  // more than are kept
  CHECK(run(7, a, 1) == 4);

  for (int64_t rows = 1; rows <= 600; ++rows) {  // the plan that was run last is not kept, either
    Graph graph(runtime);
    const Expr x = graph.input({{rows, 5}, DType::kF32}, nullptr);
    graph.reserve({add(x, x)});
  }
  CHECK(runtime.plan_table() == "no plan was run\n");
}

TEST_CASE("a plan serves no graph but its own", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime), other(runtime);
  const auto outputs = random_graph(graph, 5, 20);
  const auto wanted = values_of(outputs);
  const Plan plan = Plan::make(graph, wanted);
  CHECK(plan.fits(graph, wanted));
  CHECK_FALSE(plan.fits(graph, values_of({outputs.begin(), outputs.end() - 1})));
  auto others = wanted;  // as many
  std::ranges::reverse(others);
  CHECK_FALSE(plan.fits(graph, others));
  const auto same = values_of(random_graph(other, 5, 20));
  CHECK(same == wanted);
  CHECK(plan.fits(other, same));
  CHECK(Plan::hash(other, same) == Plan::hash(graph, wanted));
  other.append(Mix{1, 1, -1, 0, {3}}, {Expr(&other, wanted[0])});
  CHECK_FALSE(plan.fits(other, wanted));
  const std::vector<float> data(70);
  const auto sum = [&](Graph& g, const Shape& shape) {
    const Expr x = g.input({shape, DType::kF32}, data.data());
    return values_of({add(x, x)});
  };
  Graph tall(runtime), wide(runtime);
  const auto of_tall = sum(tall, {7, 10}), of_wide = sum(wide, {10, 7});
  CHECK(Plan::make(tall, of_tall).fits(tall, of_tall));
  CHECK_FALSE(Plan::make(tall, of_tall).fits(wide, of_wide));
  std::vector<float> gradients(20);
  const auto sum_to = [&](Graph& g, size_t parameter) {
    const Expr x = g.input({{7, 10}, DType::kF32}, data.data());
    const Expr of[] = {g.parameter({10}, data.data(), gradients.data()),
                       g.parameter({10}, data.data(), gradients.data() + 10)};
    return values_of({g.append(SumLeading{1, false, true}, {x}, {of[parameter].value().node})});
  };
  Graph first(runtime), second(runtime);
  const auto to_first = sum_to(first, 0), to_second = sum_to(second, 1);
  CHECK(to_first == to_second);
  CHECK_FALSE(Plan::make(first, to_first).fits(second, to_second));
  Graph different(runtime);
  CHECK_FALSE(plan.fits(different, values_of(random_graph(different, 6, 20))));
}

TEST_CASE("the plan's table has a line for each tensor", "[graph]") {
  Runtime runtime(1);
  CHECK(runtime.plan_table() == "no plan was run\n");
  runtime.profile.times_ops = true;
  Graph graph(runtime);
  const std::vector<float> data(35), zeros(5);
  std::vector<float> gradient(5);
  const Expr x = graph.input({{7, 5}, DType::kF32}, data.data());
  const Expr mixed = graph.append(Mix{1, 2, -1, 100, {10, 20}}, {graph.input({{64}, DType::kI32}, kData.data())});
  const Expr loss = sum_leading(add(x, graph.parameter({5}, zeros.data(), gradient.data())), 0);
  graph.backward(loss);
  graph.run({loss, mixed});
  const auto plan = Plan::make(graph, values_of({loss, mixed}));

  std::istringstream table(runtime.plan_table());
  std::string line;
  std::getline(table, line);
  for (const char* column : {"node", "op", "shape", "bytes", "offset", "FLOP", "ms"})
    CHECK(line.find(column) != std::string::npos);
  for (const auto& step : plan.steps) {
    const Node& node = graph.nodes()[static_cast<size_t>(step.node)];
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      REQUIRE(std::getline(table, line));
      INFO(line);
      std::istringstream fields(line);
      int32_t number = -1;
      fields >> number;
      CHECK(number == step.node);
      CHECK((line.find(node.op.name()) != std::string::npos) == (o == 0));
      CHECK(line.find(node.outputs[o].shape.str()) != std::string::npos);
      CHECK(line.find(std::to_string(node.outputs[o].bytes())) != std::string::npos);
      CHECK(line.find(step.offsets[o] < 0 ? "gradient" : std::to_string(step.offsets[o])) != std::string::npos);
      if (node.op.name() == "mix" && o == 0) CHECK(line.find("2.00") != std::string::npos);  // MFLOP
    }
  }
  REQUIRE(std::getline(table, line));
  CHECK(line.starts_with("total: " + std::to_string(plan.steps.size()) + " steps, " + std::to_string(plan.bytes) +
                         " bytes"));
  CHECK(line.find("0.00 GFLOP") != std::string::npos);
  CHECK_FALSE(std::getline(table, line));

  const auto& times = runtime.profile.ops();
  CHECK(times.at("mix").calls == 1);
  CHECK(times.at("mix").flops == 2e6);
  CHECK(times.at("mix").bytes == 4 * (64 + 10 + 20));
  CHECK(times.at("sum_leading").calls == 2);
}
