#include "ops/fusion.h"

#include "graph/basic_ops.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/normalize.h"

namespace nmt {
namespace {

// The node that makes v as a T, where nobody else reads v: then it may be absorbed. Null otherwise.
template <class T>
const T* producer(Graph& g, Value v) {
  const Node& node = g.node_at(v.node);
  if (!node.op || v.output != 0) return nullptr;
  const T* op = node.op.as<T>();
  return op != nullptr && node.uses[0] == 1 ? op : nullptr;
}

Value input_of(Graph& g, Value v, size_t i) { return g.node_at(v.node).inputs[i]; }

bool fuse_bias(Graph& g, int32_t n) {
  const Node& node = g.node_at(n);
  if (node.op.as<Add>() == nullptr) return false;
  const Value product = node.inputs[0], bias = node.inputs[1];
  const Linear* linear = producer<Linear>(g, product);
  if (linear == nullptr || *linear != Linear{}) return false;
  if (!g.node_at(bias.node).parameter || g.spec(bias).shape.rank() != 1) return false;
  Linear fused = *linear;
  fused.bias = true;
  g.rewrite(n, fused, {input_of(g, product, 0), input_of(g, product, 1), bias});
  return true;
}

bool fuse_relu(Graph& g, int32_t n) {
  const Unary* unary = g.node_at(n).op.as<Unary>();
  if (unary == nullptr || unary->kind != UnaryKind::kRelu) return false;
  const Value product = g.node_at(n).inputs[0];
  const Linear* linear = producer<Linear>(g, product);
  if (linear == nullptr || *linear != Linear{.bias = linear->bias}) return false;
  Linear fused = *linear;
  fused.relu = true;
  g.rewrite(n, fused, g.node_at(product.node).inputs);
  return true;
}

bool fuse_addend(Graph& g, int32_t n) {
  const Node& node = g.node_at(n);
  // Only gradients: the fused op has none of its own.
  if (node.op.as<Add>() == nullptr || g.spec(node.inputs[0]) != g.spec(node.inputs[1])) return false;
  for (const size_t side : {1u, 0u}) {
    const Value product = node.inputs[side], other = node.inputs[1 - side];
    const Linear* linear = producer<Linear>(g, product);
    if (linear == nullptr || *linear != Linear{.transposed = true}) continue;
    Linear fused = *linear;
    fused.addend = true;
    g.rewrite(n, fused, {input_of(g, product, 0), input_of(g, product, 1), other});
    return true;
  }
  return false;
}

bool fuse_relu_gradient(Graph& g, int32_t n) {
  const UnaryGradient* gradient = g.node_at(n).op.as<UnaryGradient>();
  if (gradient == nullptr || gradient->kind != UnaryKind::kRelu) return false;
  const Value output = g.node_at(n).inputs[0], product = g.node_at(n).inputs[1];
  const Linear* linear = producer<Linear>(g, product);
  if (linear == nullptr || *linear != Linear{.transposed = true}) return false;
  Linear fused = *linear;
  fused.relu_output = true;
  g.rewrite(n, fused, {input_of(g, product, 0), input_of(g, product, 1), output});
  return true;
}

bool fuse_residual_norm(Graph& g, int32_t n) {
  const LayerNorm* norm = g.node_at(n).op.as<LayerNorm>();
  if (norm == nullptr || norm->residual) return false;
  const auto inputs = g.node_at(n).inputs;
  if (producer<Add>(g, inputs[0]) == nullptr) return false;
  const Value x = input_of(g, inputs[0], 0);
  Value y = input_of(g, inputs[0], 1);
  if (g.spec(x) != g.spec(y)) return false;
  LayerNorm fused = *norm;
  fused.residual = true;
  if (const DropoutOp* dropout = producer<DropoutOp>(g, y)) {
    fused.rate = dropout->rate;
    fused.site = dropout->site;
    y = input_of(g, y, 0);
  }
  g.rewrite(n, fused, {x, inputs[1], inputs[2], y});
  return true;
}

// The tensor and first column that split_heads reads.
struct Source {
  Value value;
  int column = 0;
};
Source source_of(Graph& g, Value split) {
  const Value x = input_of(g, split, 0);
  if (const Columns* columns = producer<Columns>(g, x)) return {input_of(g, x, 0), static_cast<int>(columns->first)};
  return {x, 0};
}

bool fuse_attention(Graph& g, int32_t n) {
  if (g.node_at(n).op.as<MergeHeads>() == nullptr) return false;
  const Value product = g.node_at(n).inputs[0];
  const MatMul* outer = producer<MatMul>(g, product);
  if (outer == nullptr || outer->transpose_a || outer->transpose_b) return false;
  Value weights = input_of(g, product, 0);
  const Value v = input_of(g, product, 1);
  AttentionOp fused{};
  const DropoutSegments* dropout = producer<DropoutSegments>(g, weights);
  if (dropout != nullptr) {
    fused.rate = dropout->rate;
    fused.site = dropout->site;
    weights = input_of(g, weights, 0);
  }
  const Softmax* softmax = producer<Softmax>(g, weights);
  if (softmax == nullptr || softmax->log) return false;
  const Value masked = input_of(g, weights, 0);
  const MaskSegments* mask = producer<MaskSegments>(g, masked);
  if (mask == nullptr) return false;
  const Value scaled = input_of(g, masked, 0);
  const Scale* scale = producer<Scale>(g, scaled);
  if (scale == nullptr) return false;
  const Value scores = input_of(g, scaled, 0);
  const MatMul* inner = producer<MatMul>(g, scores);
  if (inner == nullptr || inner->transpose_a || !inner->transpose_b) return false;
  const Value q = input_of(g, scores, 0), k = input_of(g, scores, 1);
  if (producer<SplitHeads>(g, q) == nullptr || producer<SplitHeads>(g, k) == nullptr ||
      producer<SplitHeads>(g, v) == nullptr)
    return false;
  const Source qs = source_of(g, q), ks = source_of(g, k), vs = source_of(g, v);
  fused.heads = static_cast<int>(g.spec(q).shape[0]);
  fused.d_k = static_cast<int>(g.spec(q).shape[2]);
  fused.d_v = static_cast<int>(g.spec(v).shape[2]);
  fused.q_column = qs.column;
  fused.k_column = ks.column;
  fused.v_column = vs.column;
  fused.scale = scale->factor;
  fused.mask = mask->mask;
  g.rewrite(n, fused,
            {qs.value, ks.value, vs.value, input_of(g, masked, 1), input_of(g, masked, 2), input_of(g, masked, 3)});
  return true;
}

bool fuse_cross_entropy(Graph& g, int32_t n) {
  const CrossEntropy* loss = g.node_at(n).op.as<CrossEntropy>();
  if (loss == nullptr) return false;
  const auto inputs = g.node_at(n).inputs;
  const Linear* linear = producer<Linear>(g, inputs[0]);
  if (linear == nullptr || *linear != Linear{}) return false;
  g.rewrite(n, ProjectCrossEntropy{loss->smoothing},
            {input_of(g, inputs[0], 0), input_of(g, inputs[0], 1), inputs[1], inputs[2]});
  return true;
}

constexpr FusionRule kRules[] = {fuse_bias,          fuse_relu,      fuse_addend,       fuse_relu_gradient,
                                 fuse_residual_norm, fuse_attention, fuse_cross_entropy};

}  // namespace

std::span<const FusionRule> fusion_rules() { return kRules; }

}  // namespace nmt
