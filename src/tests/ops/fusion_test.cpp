// Each fusion rule: that it applies, that it does not where it must not, and that nothing changes but the number of
// passes. (op_case.cpp compares fused and composed with references; here the structure is looked at.)
#include "ops/fusion.h"

#include <deque>
#include <map>

#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "tests/ops/op_case.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

using Calls = std::map<std::string, int64_t>;

// A graph with leaves on request: data and gradients live here.
class Net {
 public:
  explicit Net(bool fusion, DType compute = DType::kF32)
      : runtime_(1, compute), graph_(runtime_, fusion ? fusion_rules() : std::span<const FusionRule>()) {
    runtime_.profile.times_ops = true;
  }

  Graph& graph() { return graph_; }
  Runtime& runtime() { return runtime_; }
  Expr input(const Shape& shape) { return graph_.input({shape, runtime_.compute()}, random(shape).data(), true); }
  // So small that what it makes of an input is no larger: of scores as large as 30 the exponentials alone differ by
  // more than what is allowed.
  Expr weight(const Shape& shape) {
    Array& data = random(shape, DType::kF32, 1 / std::sqrt(static_cast<double>(shape[shape.rank() - 1])));
    auto& gradient = gradients_.emplace_back(data.size());
    return graph_.parameter(shape, data.f32(), gradient.data());
  }
  Expr indices(std::vector<int32_t> v) {
    const auto& data = indices_.emplace_back(std::move(v));
    return graph_.input({{static_cast<int64_t>(data.size())}, DType::kI32}, data.data());
  }
  Expr offsets(std::vector<int64_t> v) {
    const auto& data = offsets_.emplace_back(std::move(v));
    return graph_.input({{static_cast<int64_t>(data.size())}, DType::kI64}, data.data());
  }

  // Computes `outputs`; returns how often each op was called.
  Calls run(const std::vector<Expr>& outputs) {
    std::map<std::string, int64_t> before;
    for (const auto& [name, time] : runtime_.profile.ops()) before[name] = time.calls;
    graph_.run(outputs);
    Calls calls;
    for (const auto& [name, time] : runtime_.profile.ops())
      if (time.calls > before[name]) calls[name] = time.calls - before[name];
    return calls;
  }

  Values values(Expr x) {
    Array data(x.dtype(), static_cast<size_t>(x.shape().elements()));
    std::memcpy(data.data(), graph_.data(x), static_cast<size_t>(x.spec().bytes()));
    return data.values();
  }
  const std::deque<std::vector<float>>& gradients() const { return gradients_; }

 private:
  Array& random(const Shape& shape, DType t, double spread = 1) {
    return data_.emplace_back(t, random_values(static_cast<size_t>(shape.elements()), 40 + data_.size(), spread));
  }
  Array& random(const Shape& shape) { return random(shape, runtime_.compute()); }

  Runtime runtime_;
  Graph graph_;
  std::deque<Array> data_;
  std::deque<std::vector<float>> gradients_;
  std::deque<std::vector<int32_t>> indices_;
  std::deque<std::vector<int64_t>> offsets_;
};

using Build = std::function<Expr(Net&)>;

void check_near(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (const double v : b) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == Approx(b[i]).margin(1e-5 * largest).epsilon(0));
}

// What the expression computes with is `fused`, or `composed` without rules; values and gradients are the same.
void check_rule(const Build& build, const Calls& fused, const Calls& composed) {
  Net with(true), without(false);
  const Expr y = build(with), z = build(without);
  CHECK(with.run({y}) == fused);
  CHECK(without.run({z}) == composed);
  check_near(with.values(y), without.values(z));
  // Backward, in graphs of their own: rules are tried before differentiation.
  Net train(true), plain(false);
  for (Net* net : {&train, &plain}) {
    const Expr result = build(*net);
    const Expr loss = result.shape().elements() == 1 ? result : sum_leading(multiply(result, result), 0);
    net->graph().backward(loss);
    net->run({loss});
  }
  REQUIRE(train.gradients().size() == plain.gradients().size());
  for (size_t i = 0; i < train.gradients().size(); ++i)
    check_near({train.gradients()[i].begin(), train.gradients()[i].end()},
               {plain.gradients()[i].begin(), plain.gradients()[i].end()});
}

// Where a rule must not apply, both compute the same ops.
void check_left_alone(const Build& build, const Calls& calls) {
  Net with(true), without(false);
  const Expr y = build(with), z = build(without);
  CHECK(with.run({y}) == calls);
  CHECK(without.run({z}) == calls);
  CHECK(with.values(y) == without.values(z));
}

Segments segments(Net& net) {
  return {net.indices({0, 3, 4, 9}), net.indices({0, 3, 4, 9}), net.offsets({0, 9, 10, 35})};
}

}  // namespace

TEST_CASE("a bias is added by the product", "[fusion]") {
  check_rule(
      [](Net& n) {
        return linear(n.input({9, 7}), n.weight({5, 7}), n.weight({5}));
      },
      {{"linear", 1}}, {{"linear", 1}, {"add", 1}});
  // No parameter of one axis.
  check_left_alone(
      [](Net& n) {
        return add(linear(n.input({9, 7}), n.weight({5, 7})), n.input({5}));
      },
      {{"linear", 1}, {"add", 1}});
  check_left_alone(
      [](Net& n) {
        return add(linear(n.input({9, 7}), n.weight({5, 7})), n.input({9, 5}));
      },
      {{"linear", 1}, {"add", 1}});
  // The product is read twice.
  check_left_alone(
      [](Net& n) {
        const Expr product = linear(n.input({9, 7}), n.weight({5, 7}));
        return multiply(add(product, n.weight({5})), product);
      },
      {{"linear", 1}, {"add", 1}, {"multiply", 1}});
  // A second bias is not the first.
  check_rule(
      [](Net& n) {
        return add(linear(n.input({9, 7}), n.weight({5, 7}), n.weight({5})), n.weight({5}));
      },
      {{"linear", 1}, {"add", 1}}, {{"linear", 1}, {"add", 2}});
}

TEST_CASE("ReLU is computed by the product", "[fusion]") {
  check_rule(
      [](Net& n) {
        return relu(linear(n.input({9, 7}), n.weight({5, 7})));
      },
      {{"linear", 1}}, {{"linear", 1}, {"unary", 1}});
  check_rule(
      [](Net& n) {
        return relu(linear(n.input({9, 7}), n.weight({5, 7}), n.weight({5})));
      },
      {{"linear", 1}}, {{"linear", 1}, {"add", 1}, {"unary", 1}});
  check_left_alone(
      [](Net& n) {
        return gelu(linear(n.input({9, 7}), n.weight({5, 7})));
      },
      {{"linear", 1}, {"unary", 1}});
  check_left_alone([](Net& n) { return relu(relu(n.input({9, 7}))); }, {{"unary", 2}});
  check_left_alone(
      [](Net& n) {
        const Expr product = linear(n.input({9, 7}), n.weight({5, 7}));
        return multiply(relu(product), product);
      },
      {{"linear", 1}, {"unary", 1}, {"multiply", 1}});
}

TEST_CASE("gradients that meet are added by the product", "[fusion]") {
  const auto backward = [](Net& n) {
    const Expr x = n.input({9, 7});
    const Expr loss = sum_leading(multiply(x, linear(relu(x), n.weight({7, 7}))), 0);
    n.graph().backward(loss);
    return n.graph().gradient(x);
  };
  Net with(true), without(false);
  const Expr a = backward(with), b = backward(without);
  const Calls fused = with.run({a}), composed = without.run({b});
  check_near(with.values(a), without.values(b));
  CHECK(composed.at("linear") == fused.at("linear"));

  // What the product reads is added to it: several panels of columns read it, so its memory is not to be taken.
  const auto residual = [](Net& n) {
    const Expr x = n.input({9, 70});
    const Expr loss = sum_leading(multiply(add(x, linear(x, n.weight({70, 70}))), n.input({9, 70})), 0);
    n.graph().backward(loss);
    return n.graph().gradient(x);
  };
  Net train(true), plain(false);
  const Expr c = residual(train), d = residual(plain);
  const Calls one = train.run({c}), two = plain.run({d});
  check_near(train.values(c), plain.values(d));
  // Composed: x's two gradients, and the gradient of the sum over all elements; fused, one addition less.
  CHECK(two.at("add") == one.at("add") + 1);
  CHECK(two.at("linear") == one.at("linear"));
}

TEST_CASE("a product becomes the gradient of ReLU", "[fusion]") {
  // The ReLU's output is asked for, too: its memory is not to be taken.
  for (const bool asked : {false, true}) {
    const auto backward = [&](Net& n) {
      const Expr x = n.input({9, 7}), h = relu(linear(x, n.weight({70, 7})));
      n.graph().backward(sum_leading(linear(h, n.weight({1, 70})), 0));
      std::vector<Expr> results{n.graph().gradient(x)};
      if (asked) results.push_back(h);
      return results;
    };
    Net with(true), without(false);
    const std::vector<Expr> a = backward(with), b = backward(without);
    const Calls fused = with.run(a), composed = without.run(b);
    CHECK(fused.at("linear") == composed.at("linear"));
    CHECK(!fused.contains("unary_gradient"));
    CHECK(composed.at("unary_gradient") == 1);
    for (size_t i = 0; i < a.size(); ++i) check_near(with.values(a[i]), without.values(b[i]));
    for (size_t i = 0; i < with.gradients().size(); ++i) CHECK(with.gradients()[i] == without.gradients()[i]);
  }
}

TEST_CASE("a product becomes no gradient of another activation", "[fusion]") {
  const auto backward = [](Net& n) {
    const Expr x = n.input({9, 7});
    n.graph().backward(sum_leading(linear(gelu(linear(x, n.weight({70, 7}))), n.weight({1, 70})), 0));
    return n.graph().gradient(x);
  };
  Net with(true), without(false);
  const Expr a = backward(with), b = backward(without);
  CHECK(with.run({a}).at("unary_gradient") == 1);
  without.run({b});
  check_near(with.values(a), without.values(b));
}

TEST_CASE("residual, dropout and layer normalisation are one pass", "[fusion]") {
  const auto norm = [](Net& n, Expr x) { return layer_norm(x, n.weight({7}), n.weight({7})); };
  check_rule(
      [&](Net& n) {
        return norm(n, add(n.input({9, 7}), dropout(n.input({9, 7}), 0.3f)));
      },
      {{"layer_norm", 1}}, {{"layer_norm", 1}, {"add", 1}, {"dropout", 1}});
  check_rule(
      [&](Net& n) {
        return norm(n, add(n.input({9, 7}), n.input({9, 7})));
      },
      {{"layer_norm", 1}}, {{"layer_norm", 1}, {"add", 1}});
  // The gradients of both roles of one value meet.
  check_rule(
      [&](Net& n) {
        const Expr x = linear(n.input({9, 7}), n.weight({7, 7}));
        return norm(n, add(x, dropout(x, 0.3f)));
      },
      {{"linear", 1}, {"layer_norm", 1}}, {{"linear", 1}, {"layer_norm", 1}, {"add", 1}, {"dropout", 1}});
  // Dropout that is read twice stays, the sum is absorbed.
  check_rule(
      [&](Net& n) {
        const Expr dropped = dropout(n.input({9, 7}), 0.3f);
        return multiply(norm(n, add(n.input({9, 7}), dropped)), dropped);
      },
      {{"dropout", 1}, {"layer_norm", 1}, {"multiply", 1}},
      {{"dropout", 1}, {"layer_norm", 1}, {"multiply", 1}, {"add", 1}});
  // The sum is read twice (a pre-norm residual), or is no residual.
  check_left_alone(
      [&](Net& n) {
        const Expr sum = add(n.input({9, 7}), n.input({9, 7}));
        return add(sum, norm(n, sum));
      },
      {{"add", 2}, {"layer_norm", 1}});
  check_left_alone(
      [&](Net& n) {
        return norm(n, add(n.input({9, 7}), n.input({7})));
      },
      {{"add", 1}, {"layer_norm", 1}});
}

TEST_CASE("attention is one op", "[fusion]") {
  const Calls parts{{"split_heads", 3},   {"matmul", 2},  {"scale", 1},
                    {"mask_segments", 1}, {"softmax", 1}, {"merge_heads", 1}};
  const auto composed = [&](Calls more) {
    more.insert(parts.begin(), parts.end());
    return more;
  };
  for (const bool causal : {false, true}) {
    check_rule(
        [=](Net& n) {
          return attention(linear(n.input({9, 12}), n.weight({12, 12})), linear(n.input({9, 12}), n.weight({12, 12})),
                           linear(n.input({9, 12}), n.weight({8, 12})), 2, segments(n), causal, 0.3f);
        },
        {{"linear", 3}, {"attention", 1}}, composed({{"linear", 3}, {"dropout_segments", 1}}));
    check_rule(
        [=](Net& n) {
          const Expr qkv = linear(n.input({9, 12}), n.weight({12 + 12 + 8, 12}));
          return attention(columns(qkv, 0, 12), columns(qkv, 12, 12), columns(qkv, 24, 8), 2, segments(n), causal, 0);
        },
        {{"linear", 1}, {"attention", 1}}, composed({{"linear", 1}, {"columns", 3}}));
  }
  // A part that somebody else reads too.
  check_left_alone(
      [](Net& n) {
        const Expr scores = mask_segments(
            scale(matmul(split_heads(n.input({9, 6}), 2), split_heads(n.input({9, 6}), 2), false, true), 0.5f),
            segments(n), true);
        const Expr weights = softmax(scores);
        return matmul(merge_heads(matmul(weights, split_heads(n.input({9, 6}), 2))), sum_leading(weights, 2), true);
      },
      {{"split_heads", 3},
       {"matmul", 3},
       {"scale", 1},
       {"mask_segments", 1},
       {"softmax", 1},
       {"merge_heads", 1},
       {"sum_leading", 1}});
  // Another softmax, another product.
  for (const bool log : {false, true})
    check_left_alone(
        [=](Net& n) {
          const Expr products = matmul(split_heads(n.input({9, 6}), 2), split_heads(n.input({9, 6}), 2), false, true);
          const Expr scores =
              mask_segments(scale(products, 0.5f), {n.indices({0, 9}), n.indices({0, 9}), n.offsets({0, 81})}, false);
          const Expr values = split_heads(n.input({9, 18}), 2);
          return merge_heads(matmul(log ? log_softmax(scores) : softmax(scores), values, false, !log));
        },
        parts);
}

TEST_CASE("the loss is computed with the projection", "[fusion]") {
  const std::vector<int32_t> labels{1, 0, -1, 4, 4, 2, 3, 1, 0};
  const auto one = [](Net& n) {
    static const float kOne = 1;
    return n.graph().input({{1}, DType::kF32}, &kOne);
  };
  check_rule(
      [&](Net& n) {
        return cross_entropy(linear(linear(n.input({9, 7}), n.weight({7, 7})), n.weight({5, 7})), n.indices(labels),
                             one(n), 0.1f);
      },
      {{"linear", 1}, {"project_cross_entropy", 1}}, {{"linear", 2}, {"cross_entropy", 1}});
  check_rule(
      [&](Net& n) {
        return cross_entropy(linear(n.input({9, 7}), n.weight({5, 7}), n.weight({5})), n.indices(labels), one(n), 0.1f);
      },
      {{"linear", 1}, {"cross_entropy", 1}}, {{"linear", 1}, {"add", 1}, {"cross_entropy", 1}});
  // The gradient is known before that of what comes after the loss: so the loss must be the end.
  Net net(true);
  const Expr loss = cross_entropy(linear(net.input({9, 7}), net.weight({5, 7})), net.indices(labels), one(net), 0.1f);
  CHECK_THROWS_AS(net.graph().backward(scale(loss, 2)), std::logic_error);
}

TEST_CASE("what a rule absorbed can still be asked for", "[fusion]") {
  Net with(true), without(false);
  std::vector<Values> results;
  for (Net* n : {&with, &without}) {
    const Expr product = linear(n->input({9, 7}), n->weight({5, 7}));
    const Expr sum = add(product, n->weight({5})), y = relu(sum);
    n->run({y, product, sum});
    for (const Expr e : {y, product, sum}) results.push_back(n->values(e));
    const Expr later = multiply(product, y);  // and read by what is appended after the run
    n->run({later});
    results.push_back(n->values(later));
  }
  for (size_t i = 0; i < 4; ++i) check_near(results[i], results[i + 4]);
}

TEST_CASE("a weight in two products", "[fusion]") {
  check_rule(
      [](Net& n) {
        const Expr w = n.weight({7, 7});
        return relu(linear(relu(linear(n.input({9, 7}), w)), w));
      },
      {{"linear", 2}}, {{"linear", 2}, {"unary", 2}});
}
