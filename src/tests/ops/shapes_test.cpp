// Shapes and types that do not fit: every op throws std::logic_error and names itself and the shapes.
#include "graph/basic_ops.h"
#include "graph/runtime.h"
#include "ops/additive_attention.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/normalize.h"
#include "ops/project_top_k.h"
#include "tests/catch.h"

using namespace nmt;

namespace {

class Fixture {
 public:
  Expr f32(const Shape& shape) { return graph.input({shape, DType::kF32}, nullptr, true); }
  Expr bf16(const Shape& shape) { return graph.input({shape, DType::kBF16}, nullptr, true); }
  Expr i32(const Shape& shape) { return graph.input({shape, DType::kI32}, nullptr); }
  Expr i64(const Shape& shape) { return graph.input({shape, DType::kI64}, nullptr); }
  Expr weight(const Shape& shape) { return graph.parameter(shape, nullptr, &gradient); }
  Segments segments(int64_t sentences) { return {i32({sentences + 1}), i32({sentences + 1}), i64({sentences + 1})}; }

  // `make` throws a logic_error that holds every one of `parts`.
  template <class Make>
  void refuses(Make make, std::initializer_list<const char*> parts) {
    try {
      make();
    } catch (const std::logic_error& error) {
      for (const char* part : parts) {
        INFO(error.what());
        CHECK(std::string(error.what()).find(part) != std::string::npos);
      }
      return;
    }
    INFO(*parts.begin());
    CHECK(!"nothing was thrown");
  }

  Runtime runtime{1};
  Graph graph{runtime};
  float gradient = 0;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "wrong shapes and types throw, naming the op", "[ops]") {
  refuses([&] { add(f32({3, 7}), f32({3})); }, {"add", "[3, 7]", "[3]"});
  refuses([&] { add(f32({7}), f32({3, 7})); }, {"add", "[3, 7]", "[7]"});
  refuses([&] { add(f32({7}), bf16({7})); }, {"add", "f32", "bf16"});
  refuses([&] { sum_leading(f32({3, 7}), 3); }, {"sum_leading", "[3, 7]"});
  refuses([&] { sum_leading(f32({3, 7}), -1); }, {"sum_leading", "[3, 7]"});
  refuses([&] { multiply(f32({3, 7}), f32({7})); }, {"multiply", "[3, 7]", "[7]"});
  refuses([&] { multiply(f32({7}), bf16({7})); }, {"multiply"});
  refuses([&] { relu(i32({7})); }, {"unary", "i32"});
  refuses([&] { scale(i32({7}), 2); }, {"scale", "i32"});
  refuses([&] { cast(f32({7}), DType::kI32); }, {"cast", "i32"});
  refuses([&] { relu_gradient(f32({7}), f32({8})); }, {"unary_gradient", "[7]", "[8]"});
  refuses([&] { dropout(i32({7}), 0.5f); }, {"dropout", "i32"});
  refuses([&] { dropout(f32({7}), 1.f); }, {"dropout", "1"});
  refuses([&] { dropout(f32({7}), -0.1f); }, {"dropout", "-0.1"});

  refuses([&] { linear(f32({3, 7}), weight({5, 8})); }, {"linear", "[3, 7]", "[5, 8]"});
  refuses([&] { linear(f32({3, 7}), weight({7})); }, {"linear", "[3, 7]", "[7]"});
  refuses([&] { linear(f32({}), weight({7, 7})); }, {"linear", "[]", "[7, 7]"});
  refuses([&] { linear(f32({3, 7}), weight({5, 7}), weight({7})); }, {"[3, 5]", "[7]"});
  refuses([&] { linear(bf16({3, 7}), bf16({5, 7})); }, {"linear", "bf16"});
  refuses([&] { linear(i32({3, 7}), weight({5, 7})); }, {"linear", "i32"});
  refuses([&] { matmul(f32({3, 7}), f32({3, 7})); }, {"matmul", "[3, 7]"});
  refuses([&] { matmul(f32({2, 3, 7}), f32({7, 5})); }, {"matmul", "[2, 3, 7]", "[7, 5]"});
  refuses([&] { matmul(f32({2, 3, 7}), f32({3, 7, 5})); }, {"matmul", "[2, 3, 7]", "[3, 7, 5]"});
  refuses([&] { matmul(f32({3, 7}), bf16({7, 5})); }, {"matmul"});
  refuses([&] { matmul(f32({7}), f32({7})); }, {"matmul", "[7]"});

  refuses([&] { softmax(f32({})); }, {"softmax", "[]"});
  refuses([&] { softmax(i32({7})); }, {"softmax", "i32"});
  refuses([&] { layer_norm(f32({3, 7}), weight({3}), weight({7})); }, {"layer_norm", "[3, 7]", "[3]"});
  refuses([&] { layer_norm(f32({3, 7}), weight({7}), weight({7, 1})); }, {"layer_norm", "[3, 7]", "[7, 1]"});
  refuses([&] { layer_norm(f32({}), weight({7}), weight({7})); }, {"layer_norm", "[]"});
  refuses([&] { layer_norm(bf16({3, 7}), bf16({7}), weight({7})); }, {"layer_norm", "bf16"});

  refuses([&] { embed(weight({9}), i32({3}), f32({5, 4}), i32({3}), 1, 0); }, {"embed", "[9]"});
  refuses([&] { embed(weight({9, 4}), i32({3}), f32({5, 4}), i32({4}), 1, 0); }, {"embed", "[3]", "[4]"});
  refuses([&] { embed(weight({9, 4}), i32({3}), f32({5, 6}), i32({3}), 1, 0); }, {"embed", "[9, 4]", "[5, 6]"});
  refuses([&] { embed(weight({9, 4}), f32({3}), f32({5, 4}), i32({3}), 1, 0); }, {"embed"});
  refuses([&] { cross_entropy(f32({3, 9}), i32({4}), f32({1}), 0); }, {"cross_entropy", "[3, 9]", "[4]"});
  refuses([&] { cross_entropy(f32({9}), i32({1}), f32({1}), 0); }, {"cross_entropy", "[9]"});
  refuses([&] { cross_entropy(f32({3, 9}), f32({3}), f32({1}), 0); }, {"cross_entropy"});
  refuses([&] { cross_entropy(f32({3, 9}), i32({3}), f32({2}), 0); }, {"cross_entropy", "[2]"});
  refuses([&] { project_top_k(f32({3, 4}), weight({9, 5}), 2); }, {"project_top_k", "[3, 4]", "[9, 5]"});
  refuses([&] { project_top_k(f32({3, 4}), weight({9, 4}), 10); }, {"project_top_k", "10"});
  refuses([&] { project_top_k(f32({3, 4}), weight({9, 4}), 0); }, {"project_top_k", "0"});
  refuses([&] { project_top_k(f32({3, 4}), weight({9, 4}), 2, f32({3, 8})); }, {"project_top_k", "mask", "[3, 8]"});

  refuses([&] { columns(f32({3, 7}), 5, 3); }, {"columns", "[3, 7]", "5", "3"});
  refuses([&] { columns(f32({3, 7}), -1, 3); }, {"columns", "[3, 7]"});
  refuses([&] { columns(f32({}), 0, 1); }, {"axis -1", "[]"});
  refuses([&] { split_heads(f32({3, 7}), 2); }, {"split_heads", "[3, 7]", "2"});
  refuses([&] { split_heads(f32({3, 7, 2}), 1); }, {"split_heads", "[3, 7, 2]"});
  refuses([&] { split_heads(f32({3, 7}), 0); }, {"split_heads", "[3, 7]"});
  refuses([&] { merge_heads(f32({3, 7})); }, {"merge_heads", "[3, 7]"});
  refuses([&] { mask_segments(f32({3, 7}), segments(2), false); }, {"mask_segments", "[3, 7]"});
  refuses([&] { mask_segments(f32({1, 3, 7}), {i32({3}), i32({4}), i64({3})}, false); }, {"mask_segments", "[4]"});
  refuses([&] { mask_segments(f32({1, 3, 7}), {i32({3}), i32({3}), i32({3})}, false); }, {"mask_segments"});
  refuses([&] { dropout_segments(f32({3, 7}), segments(2), 0.1f); }, {"dropout_segments", "[3, 7]"});
  refuses([&] { dropout_segments(f32({1, 3, 7}), segments(2), 1.f); }, {"dropout_segments", "1"});
  refuses([&] { attention(f32({3, 8}), f32({3, 6}), f32({3, 8}), 2, segments(1), false, 0); }, {"matmul"});
  refuses([&] { attention(f32({3, 8}), f32({3, 8}), f32({4, 8}), 2, segments(1), false, 0); }, {"matmul"});
  const Segments wrong{i32({2}), i32({2}), i32({2})};
  refuses(
      [&] {
        additive_attention(f32({3, 8}), f32({3, 8}), f32({3, 8}), weight({2, 4}), wrong, KeyMask(), 0);
      },
      {"additive_attention", "i32"});
  const auto cached = [&](Expr qkv, Expr keys, Expr values, Expr entry) {
    return cached_attention(qkv, keys, values, i32({2}), entry, i32({2}), 2);
  };
  refuses([&] { cached(f32({2, 11}), f32({9, 4}), f32({9, 4}), i32({2, 5})); }, {"cached_attention", "[2, 11]"});
  refuses([&] { cached(f32({2, 12}), f32({9, 4}), f32({9, 4}), i32({3, 5})); }, {"cached_attention", "[3, 5]"});
  refuses([&] { cached(f32({2, 12}), bf16({9, 4}), f32({9, 4}), i32({2, 5})); }, {"cached_attention"});
  refuses([&] { cached(f32({2, 12}), f32({9, 4}), f32({8, 4}), i32({2, 5})); }, {"cached_attention", "[8, 4]"});
  refuses([&] { cached(f32({12}), f32({9, 4}), f32({9, 4}), i32({2, 5})); }, {"cached_attention", "[12]"});
  refuses([&] { cached(f32({2, 12}), f32({9, 4}), f32({9, 4}), f32({2, 5})); }, {"cached_attention"});
  refuses(
      [&] {
        cached_attention(f32({2, 9}), f32({9, 3}), f32({9, 3}), i32({2}), i32({2, 5}), i32({2}), 2);
      },
      {"cached_attention", "[9, 3]"});
}

TEST_CASE_METHOD(Fixture, "gradients that cannot be are the programmer's errors", "[ops]") {
  SECTION("a weight that is no parameter") {
    refuses([&] { graph.backward(sum_leading(linear(f32({3, 7}), f32({5, 7})), 0)); }, {"linear_weight_gradient"});
  }
  SECTION("a scale that is no parameter") {
    refuses(
        [&] {
          graph.backward(sum_leading(layer_norm(f32({3, 7}), f32({7}), weight({7})), 0));
        },
        {"layer_norm_gradient"});
  }
  SECTION("a loss of several elements") {
    refuses([&] { graph.backward(relu(f32({3, 7}))); }, {"backward", "[3, 7]"});
  }
  SECTION("twice") {
    const Expr loss = sum_leading(relu(f32({3})), 0);
    graph.backward(loss);
    refuses([&] { graph.backward(loss); }, {"backward"});
  }
  SECTION("decoding") {
    const Expr best = project_top_k(f32({3, 4}), weight({9, 4}), 2);
    refuses([&] { graph.backward(sum_leading(best, 0)); }, {"project_top_k"});
  }
  SECTION("expressions of two graphs") {
    Graph other(runtime);
    const Expr x = other.input({{3}, DType::kF32}, nullptr);
    refuses([&] { add(f32({3}), x); }, {"add", "another graph"});
    refuses([&] { add(f32({3}), Expr()); }, {"add"});
  }
}

TEST_CASE_METHOD(Fixture, "labels and ids out of range are named when they are read", "[ops]") {
  const std::vector<float> numbers(100);
  const auto data = [&](const Shape& shape) { return graph.input({shape, DType::kF32}, numbers.data()); };
  std::vector<int32_t> ids{0, 9}, zeros{0, 0};
  const auto indices = [&](const std::vector<int32_t>& v) { return graph.input({{2}, DType::kI32}, v.data()); };
  refuses([&] { graph.run({cross_entropy(data({2, 9}), indices(ids), data({1}), 0)}); }, {"label 9 of 9"});
  refuses([&] { graph.run({embed(data({9, 4}), indices(ids), data({3, 4}), indices(zeros), 1, 0)}); }, {"id 9"});
  refuses([&] { graph.run({embed(data({9, 4}), indices(zeros), data({9, 4}), indices(ids), 1, 0)}); }, {"position 9"});
}
