#include "graph/runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "backend/cpu/kernels.h"
#include "base/error.h"

namespace nmt {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr size_t kCachedPlans = 256;

}  // namespace

Runtime::Runtime(int threads, DType compute, bool int8_weights)
    : pool_(threads), compute_(compute), weights_(std::make_shared<PackedWeights>(int8_weights)) {
  cpu::instruction_set();  // throws where no kernel fits the processor
  require(compute != DType::kBF16 || int8_weights || cpu::has_bf16(),
          "this processor does not multiply bf16 (it lacks AVX-512): compute in float32");
}

Runtime::Runtime(int threads, const Runtime& like) : pool_(threads), compute_(like.compute_), weights_(like.weights_) {}

const Plan& Runtime::plan_for(const Graph& graph, std::span<const Value> outputs) {
  const uint64_t hash = Plan::hash(graph, outputs);
  const auto [begin, end] = plans_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->fits(graph, outputs)) return *it->second;
  if (plans_.size() >= kCachedPlans) {
    last_ = nullptr;
    plans_.clear();
  }
  ++plans_made_;
  return *plans_.emplace(hash, std::make_unique<Plan>(Plan::make(graph, outputs)))->second;
}

void Runtime::execute(Graph& graph, std::span<const Expr> outputs) {
  std::vector<Value> values;
  for (const Expr& output : outputs) values.push_back(output.value());
  const Plan& plan = plan_for(graph, values);
  last_ = &plan;

  const auto bytes = static_cast<size_t>(std::max(plan.bytes, Plan::kAlign));  // empty tensors have a place too
  if (bytes > arena_size_) {
    arena_.reset();
    arena_size_ = 0;
    arena_.reset(static_cast<std::byte*>(std::aligned_alloc(Plan::kAlign, bytes)));
    if (arena_ == nullptr) fail("out of memory: this batch needs {} MB of workspace", bytes >> 20);
    arena_size_ = bytes;
  }

  auto& nodes = graph.nodes_;
  graph.first_place_.resize(nodes.size());
  size_t places = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    graph.first_place_[n] = places;
    places += nodes[n].outputs.size();
  }
  graph.places_.assign(places, nullptr);
  const auto place = [&](Value v) -> void*& {
    return graph.places_[graph.first_place_[static_cast<size_t>(v.node)] + static_cast<size_t>(v.output)];
  };

  std::vector<Tensor> in, out;
  for (const auto& step : plan.steps) {
    const Node& node = nodes[static_cast<size_t>(step.node)];
    in.clear();
    out.clear();
    for (const Value& v : node.inputs) {
      const Node& from = nodes[static_cast<size_t>(v.node)];
      in.push_back({from.op ? place(v) : from.data, from.outputs[static_cast<size_t>(v.output)]});
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      void*& data = place({step.node, static_cast<int32_t>(o)});
      data = step.offsets[o] >= 0 ? static_cast<void*>(arena_.get() + step.offsets[o])
                                  : static_cast<void*>(nodes[static_cast<size_t>(node.sinks[o])].gradient);
      out.push_back({data, node.outputs[o]});
    }
    const double start = profile.times_ops ? now() : 0, waited = profile.times_ops ? pool_.waiting() : 0;
    node.op.cpu({*this, in, out, step.scratch < 0 ? nullptr : arena_.get() + step.scratch});
    if (profile.times_ops) {
      step.seconds = now() - start;
      step.flops = node.op.flops(in);
      Profile::OpTime& time = profile.op(node.op.name());
      time.seconds += step.seconds;
      time.waiting += pool_.waiting() - waited;
      time.flops += step.flops;
      ++time.calls;
      for (const auto& tensor : in) time.bytes += static_cast<double>(tensor.spec.bytes());
      for (const auto& tensor : out) time.bytes += static_cast<double>(tensor.spec.bytes());
    }
  }
  // Only the outputs are promised to be there still.
  std::vector<void*> kept(places, nullptr);
  std::swap(kept, graph.places_);
  for (const Value& v : values)
    place(v) = kept[graph.first_place_[static_cast<size_t>(v.node)] + static_cast<size_t>(v.output)];
}

std::string Runtime::plan_table() const { return last_ == nullptr ? "no plan was run\n" : last_->table(); }

}  // namespace nmt
