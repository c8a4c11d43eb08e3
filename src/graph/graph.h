#pragma once

#include <map>
#include <span>
#include <vector>

#include "graph/op.h"

namespace nmt {

class Graph;

// Rewrites a node as a fused op where it ends a known pattern (the nodes before it are left to die): fewer passes over
// memory, the same values. Returns whether it did.
using FusionRule = bool (*)(Graph&, int32_t node);

// One output of one node.
struct Value {
  int32_t node = -1, output = 0;
  bool operator==(const Value&) const = default;
};

// A lazy expression: a graph and a value in it. Copied freely; holds nothing computed.
class Expr {
 public:
  Expr() = default;
  Expr(Graph* graph, Value value) : graph_(graph), value_(value) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  Value value() const { return value_; }
  const Spec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  Expr output(int32_t index) const { return {graph_, {value_.node, index}}; }

 private:
  Graph* graph_ = nullptr;
  Value value_;
};

// A leaf (data that the caller owns) or an op on earlier values.
struct Node {
  Op op;  // none: a leaf
  std::vector<Value> inputs;
  std::vector<Spec> outputs;
  std::vector<int32_t> uses;   // by output: how many inputs of living nodes read it
  std::vector<int32_t> sinks;  // by output: the parameter whose gradient buffer it adds to, or -1; empty: none
  void* data = nullptr;        // a leaf's; memory of the backend but for inputs, which lie on the host
  float* gradient = nullptr;   // a parameter's: where its gradient is accumulated
  bool input = false;          // a leaf of the caller's on the host
  bool parameter = false;      // a leaf whose packed copies are kept between runs
  bool needs_gradient = false;
};

// The tape: nodes in the order of their making, which is an order of evaluation. Nothing is computed before run().
class Graph {
 public:
  // `rules` are tried on every node before it is differentiated or run; none: everything is computed as written.
  explicit Graph(Runtime& runtime, std::span<const FusionRule> rules = {}) : runtime_(runtime), rules_(rules) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Data of the caller's, on the host, that must live until run() returns. Gradients of inputs are available on
  // request.
  Expr input(const Spec& spec, const void* data, bool needs_gradient = false);
  // Memory of the runtime's backend. A parameter's gradient is null where it is not trained; ops read and write states
  // (caches of decoding).
  Expr parameter(const Shape& shape, const float* value, float* gradient);
  Expr state(const Spec& spec, void* data);

  // Appends a node. Shapes are checked here: a wrong one throws, naming the op and the shapes.
  Expr append(const Op& op, std::initializer_list<Expr> inputs, std::vector<int32_t> sinks = {});
  Expr append(const Op& op, std::span<const Expr> inputs, std::vector<int32_t> sinks = {});

  // Appends the gradient nodes of a scalar. After run(), parameters' buffers have been added to.
  void backward(Expr loss);
  // After backward(), of an input, or of an inner value that no fusion rule made a part of another; empty where nothing
  // depends on it.
  Expr gradient(Expr of) const;

  // Computes the expressions (and all that accumulates into parameters' gradients); their values stay until the next
  // run of the same Runtime.
  void run(std::initializer_list<Expr> outputs) { run(std::span(outputs.begin(), outputs.size())); }
  void run(std::span<const Expr> outputs);
  // Takes the memory now that run(outputs) needs, so that no smaller run has to wait for it; nothing is computed.
  void reserve(std::initializer_list<Expr> outputs);
  // The floating point operations of run(outputs), multiply and add counted apart; nothing is computed, so inputs whose
  // values ops count by (lengths) must be leaves.
  double flops(std::initializer_list<Expr> outputs);
  const void* data(Expr of) const;  // on the host
  template <class T>
  const T* data(Expr of) const {
    return static_cast<const T*>(data(of));
  }
  void* place(Expr of) const;  // the same where it was computed
  float scalar(Expr of) const { return *data<float>(of); }

  // Dropout draws its mask from (seed, step, site): sites are numbered in the order of the calls.
  uint32_t next_dropout_site() { return dropout_sites_++; }
  uint32_t dropout_sites() const { return dropout_sites_; }

  Runtime& runtime() { return runtime_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node_at(int32_t n) const { return nodes_[static_cast<size_t>(n)]; }
  Node& node_at(int32_t n) { return nodes_[static_cast<size_t>(n)]; }
  // Whether backward() has appended this node, or, of any, has been called.
  bool of_backward(int32_t n) const { return has_backward() && static_cast<size_t>(n) >= gradients_.size(); }
  bool has_backward() const { return !gradients_.empty(); }
  const Spec& spec(Value v) const { return node_at(v.node).outputs[static_cast<size_t>(v.output)]; }
  // Makes an op node what `op` computes of `inputs`, earlier values. Its first output must keep its meaning, so that
  // readers need not know; nodes that nobody reads any more are dead.
  void rewrite(int32_t node, const Op& op, std::vector<Value> inputs);

 private:
  friend class Runtime;
  void fuse();
  void count_uses(Value v, int change);
  size_t place_of(Value v) const {
    return first_place_.at(static_cast<size_t>(v.node)) + static_cast<size_t>(v.output);
  }

  Runtime& runtime_;
  std::span<const FusionRule> rules_;
  size_t fused_nodes_ = 0;
  uint32_t dropout_sites_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::vector<Value>> gradients_;  // by node and output
  std::vector<void*> places_;                  // of the last run: by node, where its outputs begin
  std::vector<size_t> first_place_;
  mutable std::map<size_t, std::vector<std::byte>> downloaded_;  // by place
};

// What an op's backward() sees: its inputs, outputs and the gradients of its outputs; it adds gradients of its inputs.
class Backprop {
 public:
  Backprop(Graph& graph, int32_t node, std::vector<std::vector<Value>>& gradients, Value seed)
      : graph_(graph), node_(node), gradients_(gradients), seed_(seed) {}

  Graph& graph() { return graph_; }
  Node& node() { return graph_.node_at(node_); }  // itself, which may become another op; until nodes are appended
  Expr input(int i) const { return {&graph_, graph_.node_at(node_).inputs[static_cast<size_t>(i)]}; }
  Expr output(int o) const { return {&graph_, {node_, o}}; }
  Expr gradient(int o = 0) const;  // empty where nothing depends on the output
  bool is_seed(int o = 0) const;   // the gradient of output o is exactly 1: it is the loss itself
  bool wants(int i) const;         // input i leads to a parameter or a wanted input
  // Input i, a parameter, as the target of an accumulating output.
  int32_t sink(int i) const { return input(i).value().node; }
  void add(int i, Expr gradient);  // to input i's gradient

 private:
  Graph& graph_;
  int32_t node_;
  std::vector<std::vector<Value>>& gradients_;
  Value seed_;
};

}  // namespace nmt
