// Laziness, gradients and runs of small graphs.
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "tests/catch.h"

using namespace nmt;

namespace {

using Floats = std::vector<float>;

Expr leaf(Graph& graph, const Shape& shape, const Floats& data, bool needs_gradient = true) {
  return graph.input({shape, DType::kF32}, data.data(), needs_gradient);
}

Floats values(Graph& graph, Expr x) {
  const float* data = graph.data<float>(x);
  return {data, data + x.shape().elements()};
}

// Counts its calls, and y = x + 1.
struct Counted {
  static constexpr std::string_view kName = "counted";
  int* calls;

  std::vector<Spec> infer(std::span<const Spec> in) const { return {in[0]}; }
  void backward(Backprop& b) const { b.add(0, b.gradient()); }
  void cpu(const Launch& l) const {
    ++*calls;
    for (int64_t i = 0; i < l.out[0].elements(); ++i) l.out[0].as<float>()[i] = l.in[0].as<float>()[i] + 1;
  }
  bool operator==(const Counted&) const = default;
};

}  // namespace

TEST_CASE("nothing is computed before run, and only what is asked for", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime);
  const Floats data{1, 2, 3};
  int wanted = 0, unwanted = 0;
  const Expr x = leaf(graph, {3}, data);
  const Expr y = graph.append(Counted{&wanted}, {x});
  graph.append(Counted{&unwanted}, {x});
  CHECK(y.shape() == Shape{3});
  CHECK_THROWS_AS(graph.data(y), std::exception);
  CHECK(wanted == 0);
  graph.run({y});
  CHECK(wanted == 1);
  CHECK(unwanted == 0);
  CHECK(values(graph, y) == Floats{2, 3, 4});
  graph.run({y});
  CHECK(wanted == 2);
  const Expr z = add(y, y);  // a graph may grow after a run
  graph.run({z});
  CHECK(values(graph, z) == Floats{4, 6, 8});
  CHECK_THROWS_AS(graph.data(y), std::logic_error);  // it was not among the outputs of the last run
  CHECK(graph.data(x) == data.data());
}

TEST_CASE("gradients meet where a value is used more than once", "[graph]") {
  Runtime runtime(2);
  Graph graph(runtime);
  const Floats data{1, 2, 3, 4, 5, 6};
  const Expr x = leaf(graph, {2, 3}, data), unused = leaf(graph, {3}, data), other = leaf(graph, {3}, data);
  const Expr a = add(x, x);                                 // 2x
  const Expr b = add(a, x), c = add(a, b);                  // 3x, 5x
  const Expr loss = sum_leading(add(add(c, b), other), 0);  // 8x + other, each of other's elements twice
  graph.backward(loss);
  const Expr dx = graph.gradient(x), dother = graph.gradient(other), da = graph.gradient(a);
  REQUIRE(dx);
  CHECK_FALSE(graph.gradient(unused));
  graph.run({loss, dx, dother, da});
  CHECK(graph.scalar(loss) == 8 * 21 + 2 * 6);
  CHECK(values(graph, dx) == Floats(6, 8));
  CHECK(values(graph, dother) == Floats(3, 2));
  CHECK(values(graph, da) == Floats(6, 3));
}

TEST_CASE("no gradient flows into what needs none", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime);
  const Floats data{1, 2, 3};
  const Expr constant = leaf(graph, {3}, data, false), x = leaf(graph, {3}, data);
  const Expr loss = sum_leading(add(add(constant, constant), x), 0);
  const size_t forward = graph.nodes().size();
  graph.backward(loss);
  CHECK_FALSE(graph.gradient(constant));
  CHECK(graph.gradient(x));
  for (size_t n = forward; n < graph.nodes().size(); ++n)
    for (const Value& v : graph.nodes()[n].inputs) CHECK(v != constant.value());
}

TEST_CASE("a parameter's gradient adds up over uses, runs and graphs", "[graph]") {
  Runtime runtime(2);
  const Floats data(7 * 3, 1.f), bias{10, 20, 30};
  Floats gradient(3, 0.5f);
  Graph graph(runtime);
  const Expr p = graph.parameter({3}, bias.data(), gradient.data());
  const Expr loss = sum_leading(add(add(leaf(graph, {7, 3}, data), p), p), 0);
  graph.backward(loss);
  graph.run({loss});
  CHECK(graph.scalar(loss) == 21 + 7 * 2 * 60);
  CHECK(gradient == Floats(3, 14.5f));
  graph.run({loss});
  CHECK(gradient == Floats(3, 28.5f));
  Graph second(runtime);
  const Expr same = second.parameter({3}, bias.data(), gradient.data());
  const Expr small = sum_leading(add(leaf(second, {1, 3}, data), same), 0);
  second.backward(small);
  second.run({});  // nothing is asked for: what is accumulated is still computed
  CHECK(gradient == Floats(3, 29.5f));

  Graph frozen(runtime);
  const Expr fixed = frozen.parameter({3}, bias.data(), nullptr);
  const Expr x = leaf(frozen, {1, 3}, data);
  const Expr sum = sum_leading(add(x, fixed), 0);
  frozen.backward(sum);
  frozen.run({sum});
  CHECK(gradient == Floats(3, 29.5f));
}

TEST_CASE("empty tensors have a place, too", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime);
  const Expr x = graph.input({{0, 3}, DType::kF32}, nullptr), y = add(x, x);
  graph.run({y});
  CHECK(values(graph, y).empty());
}

TEST_CASE("a leaf can be an output, and an output asked for twice", "[graph]") {
  Runtime runtime(1);
  Graph graph(runtime);
  const Floats data{1, 2, 3};
  const Expr x = leaf(graph, {3}, data), y = add(x, x);
  graph.run({x, y, y});
  CHECK(values(graph, x) == data);
  CHECK(values(graph, y) == Floats{2, 4, 6});
}
