#include "graph/graph.h"

#include <algorithm>

#include "base/error.h"
#include "graph/basic_ops.h"
#include "graph/runtime.h"

namespace nmt {

const Spec& Expr::spec() const { return graph_->spec(value_); }

Expr Graph::input(const Spec& spec, const void* data, bool needs_gradient) {
  const Expr leaf = state(spec, const_cast<void*>(data));
  nodes_.back().input = true;
  nodes_.back().needs_gradient = needs_gradient;
  return leaf;
}

Expr Graph::parameter(const Shape& shape, const float* value, float* gradient) {
  const Expr leaf = state({shape, DType::kF32}, const_cast<float*>(value));
  nodes_.back().gradient = gradient;
  nodes_.back().parameter = true;
  nodes_.back().needs_gradient = gradient != nullptr;
  return leaf;
}

Expr Graph::state(const Spec& spec, void* data) {
  Node node;
  node.outputs = {spec};
  node.data = data;
  nodes_.push_back(std::move(node));
  return {this, {static_cast<int32_t>(nodes_.size()) - 1, 0}};
}

Expr Graph::append(const Op& op, std::initializer_list<Expr> inputs, std::vector<int32_t> sinks) {
  return append(op, std::span(inputs.begin(), inputs.size()), std::move(sinks));
}

Expr Graph::append(const Op& op, std::span<const Expr> inputs, std::vector<int32_t> sinks) {
  Node node;
  node.op = op;
  std::vector<Spec> specs;
  for (const Expr& input : inputs) {
    check(input && &input.graph() == this, "{}: an input is missing or of another graph", op.name());
    node.inputs.push_back(input.value());
    count_uses(input.value(), 1);
    specs.push_back(input.spec());
    node.needs_gradient |= node_at(input.value().node).needs_gradient;
  }
  node.outputs = op.infer(specs);
  node.uses.resize(node.outputs.size());
  for (const int32_t sink : sinks)
    check(sink < 0 || node_at(sink).gradient != nullptr,
          "{}: a gradient that only a parameter can have, of something else", op.name());
  node.sinks = std::move(sinks);
  nodes_.push_back(std::move(node));
  return {this, {static_cast<int32_t>(nodes_.size()) - 1, 0}};
}

void Graph::count_uses(Value v, int change) {
  Node& node = node_at(v.node);
  node.uses.resize(node.outputs.size());
  node.uses[static_cast<size_t>(v.output)] += change;
  const bool dead = change < 0 && std::ranges::all_of(node.uses, [](int32_t uses) { return uses == 0; });
  if (dead)
    for (const Value& input : std::vector(node.inputs)) count_uses(input, -1);
}

void Graph::rewrite(int32_t n, const Op& op, std::vector<Value> inputs) {
  std::vector<Spec> specs;
  for (const Value& v : inputs) {
    specs.push_back(spec(v));
    count_uses(v, 1);
  }
  Node& node = node_at(n);
  node.op = op;
  node.outputs = op.infer(specs);
  node.uses.resize(node.outputs.size());
  std::swap(node.inputs, inputs);
  for (const Value& v : inputs) count_uses(v, -1);
}

void Graph::fuse() {
  for (; fused_nodes_ < nodes_.size(); ++fused_nodes_)
    for (const FusionRule rule : rules_)
      if (nodes_[fused_nodes_].op && rule(*this, static_cast<int32_t>(fused_nodes_))) break;
}

void Graph::backward(Expr loss) {
  check(loss.shape().elements() == 1, "backward: the loss has shape {}, not one element", loss.shape());
  check(gradients_.empty(), "backward: called before on this graph");
  fuse();
  gradients_.resize(nodes_.size());
  const auto last = static_cast<int32_t>(nodes_.size()) - 1;
  for (size_t n = 0; n < nodes_.size(); ++n) gradients_[n].resize(nodes_[n].outputs.size());
  const Value seed = fill(*this, loss.spec(), 1.f).value();
  gradients_[static_cast<size_t>(loss.value().node)][static_cast<size_t>(loss.value().output)] = seed;
  for (int32_t n = last; n >= 0; --n) {
    const Node& node = node_at(n);
    if (!node.op || !node.needs_gradient) continue;
    bool reached = false;
    for (const Value& g : gradients_[static_cast<size_t>(n)]) reached |= g.node >= 0;
    if (!reached) continue;
    const Op op = node.op;  // backward() may append nodes and so move `node`
    Backprop b(*this, n, gradients_, seed);
    op.backward(b);
  }
  fuse();
}

Expr Graph::gradient(Expr of) const {
  check(static_cast<size_t>(of.value().node) < gradients_.size(),
        "gradient: backward() was not called after this node");
  const Value g = gradients_[static_cast<size_t>(of.value().node)][static_cast<size_t>(of.value().output)];
  return g.node < 0 ? Expr() : Expr(&of.graph(), g);
}

void Graph::run(std::span<const Expr> outputs) {
  fuse();
  runtime_.execute(*this, outputs);
}

void Graph::reserve(std::initializer_list<Expr> outputs) {
  fuse();
  runtime_.reserve(*this, std::span(outputs.begin(), outputs.size()));
}

double Graph::flops(std::initializer_list<Expr> outputs) {
  fuse();
  return runtime_.flops(*this, std::span(outputs.begin(), outputs.size()));
}

void* Graph::place(Expr of) const {
  const Node& node = node_at(of.value().node);
  if (!node.op) return node.data;
  const size_t place = place_of(of.value());
  check(place < places_.size() && places_[place] != nullptr, "data: {} was not among the outputs of run()",
        node.op.name());
  return places_[place];
}

const void* Graph::data(Expr of) const {
  void* memory = place(of);
  Backend& backend = *runtime_.backend();
  if (backend.on_host() || node_at(of.value().node).input) return memory;
  const size_t key = place_of(of.value());
  const auto [it, fresh] = downloaded_.try_emplace(key, static_cast<size_t>(of.spec().bytes()));
  if (fresh) backend.download(it->second.data(), memory, it->second.size());
  return it->second.data();
}

Expr Backprop::gradient(int o) const {
  const Value g = gradients_[static_cast<size_t>(node_)][static_cast<size_t>(o)];
  return g.node < 0 ? Expr() : Expr(&graph_, g);
}

bool Backprop::is_seed(int o) const { return gradients_[static_cast<size_t>(node_)][static_cast<size_t>(o)] == seed_; }

bool Backprop::wants(int i) const { return graph_.node_at(input(i).value().node).needs_gradient; }

void Backprop::add(int i, Expr gradient) {
  const Value to = input(i).value();
  const Node& node = graph_.node_at(to.node);
  check(node.gradient == nullptr, "a parameter's gradient is accumulated through a sink");
  check(gradient.shape() == graph_.spec(to).shape, "{}: gradient of input {} has shape {}, not {}",
        graph_.node_at(node_).op.name(), i, gradient.shape(), graph_.spec(to).shape);
  Value& slot = gradients_[static_cast<size_t>(to.node)][static_cast<size_t>(to.output)];
  slot = slot.node < 0 ? gradient.value() : nmt::add(Expr(&graph_, slot), gradient).value();
}

}  // namespace nmt
