#include "graph/runtime.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"

namespace nmt {
namespace {

constexpr size_t kCachedPlans = 256;
constexpr int64_t kInputAlign = 256;
constexpr int kRunsBeforeRecording = 2;  // to record takes longer than a run; one at least must copy the weights
constexpr size_t kRememberedRuns = 4;    // of a plan: a search's beams move between two places

std::vector<Value> values_of(std::span<const Expr> outputs) {
  std::vector<Value> values;
  for (const Expr& output : outputs) values.push_back(output.value());
  return values;
}

}  // namespace

Runtime::Runtime(int threads, DType compute, bool int8_weights, std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)),
      pool_(threads),
      compute_(compute),
      weights_(std::make_shared<PackedWeights>(int8_weights)) {
  cpu::instruction_set();  // throws where no kernel fits the processor
  require(backend_->on_host() || !int8_weights, "int8 is computed on the CPU only");
  require(!backend_->on_host() || compute != DType::kF16, "--precision f16 is for GPUs");
  require(!backend_->on_host() || compute != DType::kBF16 || int8_weights || cpu::multiplies_bf16(),
          "this processor does not multiply bf16 (it lacks AVX-512): give --precision f32");
}

Runtime::Runtime(int threads, const Runtime& like)
    : backend_(host_backend()), pool_(threads), compute_(like.compute_), weights_(like.weights_) {
  check(like.backend_->on_host(), "a second runtime like one on a device");
}

std::string Runtime::text(const std::string& devices) const {
  const std::string_view precision = weights_->int8() ? "int8" : backend_->uses_tf32() ? "tf32" : name_of(compute_);
  return fmt::format("{} precision; {}; {} threads{}", precision, devices, pool_.size(),
                     backend_->on_host()
                         ? fmt::format("; {} kernels, products by {}", cpu::instruction_set(), cpu::products_by())
                         : "");
}

Runtime::Planned& Runtime::planned(const Graph& graph, std::span<const Value> outputs) {
  const uint64_t hash = Plan::hash(graph, outputs);
  const auto [begin, end] = plans_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->plan.fits(graph, outputs)) return *it->second;
  if (plans_.size() >= kCachedPlans) {
    last_ = nullptr;
    plans_.clear();
  }
  ++plans_made_;
  backend_->make_current();  // how much working memory kernels need depends on the device
  auto made = std::make_unique<Planned>();
  made->plan = Plan::make(graph, outputs, backend_->on_host());
  return *plans_.emplace(hash, std::move(made))->second;
}

// Where the device finds the inputs, by node; all go there together.
std::vector<void*> Runtime::upload_inputs(const Graph& graph) {
  std::vector<void*> places(graph.nodes_.size(), nullptr);
  std::vector<std::pair<size_t, size_t>> begins;  // of nodes
  all_inputs_.clear();
  for (size_t n = 0; n < graph.nodes_.size(); ++n) {
    const Node& node = graph.nodes_[n];
    if (!node.input) continue;
    const auto* from = static_cast<const std::byte*>(node.data);
    begins.emplace_back(n, all_inputs_.size());
    all_inputs_.insert(all_inputs_.end(), from, from + node.outputs[0].bytes());
    all_inputs_.resize(static_cast<size_t>(round_up(static_cast<int64_t>(all_inputs_.size()), kInputAlign)));
  }
  take_inputs(all_inputs_.size());
  backend_->upload(inputs_.data(), all_inputs_.data(), all_inputs_.size());
  for (const auto& [n, begin] : begins) places[n] = inputs_.data() + begin;
  return places;
}

void Runtime::take_arena(const Plan& plan) {
  const auto bytes = static_cast<size_t>(std::max(plan.bytes, Plan::kAlign));  // empty tensors have a place too
  if (bytes <= arena_.bytes()) return;
  arena_ = {};
  try {
    arena_ = Buffer(backend_, bytes);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("the workspace of a batch: {}", error.what()));
  }
}

void Runtime::take_inputs(size_t bytes) {
  if (bytes <= inputs_.bytes()) return;
  inputs_ = {};
  inputs_ = Buffer(backend_, bytes);
  backend_->prepare_uploads(bytes);
}

void Runtime::release_workspace() {
  arena_ = {};
  inputs_ = {};
  for (const auto& [hash, planned] : plans_) planned->runs.clear();
  backend_->give_back();
}

void Runtime::reserve(const Graph& graph, std::span<const Expr> outputs) {
  take_arena(planned(graph, values_of(outputs)).plan);
  int64_t bytes = 0;
  for (const Node& node : graph.nodes_)
    if (node.input) bytes += round_up(node.outputs[0].bytes(), kInputAlign);
  if (!backend_->on_host()) take_inputs(static_cast<size_t>(bytes));
}

double Runtime::flops(const Graph& graph, std::span<const Expr> outputs) {
  double all = 0;
  std::vector<Tensor> in;
  for (const auto& step : planned(graph, values_of(outputs)).plan.steps) {
    const Node& node = graph.node_at(step.node);
    in.clear();
    for (const Value& v : node.inputs) {
      const Node& from = graph.node_at(v.node);
      in.push_back({from.data, from.outputs[static_cast<size_t>(v.output)]});  // some count by their inputs' values
    }
    all += node.op.flops(in);
  }
  return all;
}

void Runtime::execute(Graph& graph, std::span<const Expr> outputs) {
  const std::vector<Value> values = values_of(outputs);
  Planned& made = planned(graph, values);
  const Plan& plan = made.plan;
  last_ = &plan;

  take_arena(plan);
  const bool on_host = backend_->on_host();
  const auto inputs = on_host ? std::vector<void*>() : upload_inputs(graph);
  graph.downloaded_.clear();
  place_results(graph, plan);
  // Dropout draws another mask in each run; and what is timed op by op is begun op by op.
  if (on_host || profile.times_ops || graph.dropout_sites() > 0) {
    compute(graph, plan, inputs);
  } else {
    auto& run = run_of(made, graph, inputs);
    if (run.times < kRunsBeforeRecording) {
      compute(graph, plan, inputs);
      ++run.times;
    } else {
      if (!run.recording) run.recording = backend_->record([&] { compute(graph, plan, inputs); });
      run.recording->begin();
      ++recordings_begun_;
    }
  }
  // Only the outputs are promised to be there still.
  std::vector<void*> kept(graph.places_.size(), nullptr);
  std::swap(kept, graph.places_);
  for (const Value& v : values) {
    const size_t place = graph.place_of(v);
    graph.places_[place] = kept[place];
  }
}

Runtime::Planned::Run& Runtime::run_of(Planned& planned, const Graph& graph, std::span<void* const> inputs) {
  const auto address = [](const void* data) { return reinterpret_cast<uintptr_t>(data); };
  std::vector<uintptr_t> on = {address(arena_.data()), static_cast<uintptr_t>(backend_->recordings_version())};
  for (size_t n = 0; n < graph.nodes_.size(); ++n)
    if (const Node& node = graph.nodes_[n]; !node.op) {
      on.push_back(address(node.input ? inputs[n] : node.data));
      on.push_back(address(node.gradient));
    }
  auto& runs = planned.runs;
  const auto known = std::ranges::find(runs, on, &Planned::Run::on);
  if (known != runs.end()) return *known;
  if (runs.size() == kRememberedRuns) runs.pop_front();
  runs.push_back({std::move(on)});
  return runs.back();
}

void Runtime::place_results(Graph& graph, const Plan& plan) {
  auto& nodes = graph.nodes_;
  graph.first_place_.resize(nodes.size());
  size_t places = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    graph.first_place_[n] = places;
    places += nodes[n].outputs.size();
  }
  graph.places_.assign(places, nullptr);
  for (const auto& step : plan.steps) {
    const auto n = static_cast<size_t>(step.node);
    for (size_t o = 0; o < nodes[n].outputs.size(); ++o)
      graph.places_[graph.first_place_[n] + o] = step.offsets[o] >= 0
                                                     ? static_cast<void*>(arena_.data() + step.offsets[o])
                                                     : static_cast<void*>(graph.node_at(nodes[n].sinks[o]).gradient);
  }
}

void Runtime::compute(Graph& graph, const Plan& plan, std::span<void* const> inputs) {
  const auto place = [&](Value v) { return graph.places_[graph.place_of(v)]; };
  std::vector<Tensor> in, out;
  for (const auto& step : plan.steps) {
    const Node& node = graph.node_at(step.node);
    in.clear();
    out.clear();
    for (const Value& v : node.inputs) {
      const Node& from = graph.node_at(v.node);
      const bool uploaded = from.input && !inputs.empty();
      in.push_back({from.op    ? place(v)
                    : uploaded ? inputs[static_cast<size_t>(v.node)]
                               : from.data,
                    from.outputs[static_cast<size_t>(v.output)]});
    }
    for (size_t o = 0; o < node.outputs.size(); ++o)
      out.push_back({place({step.node, static_cast<int32_t>(o)}), node.outputs[o]});
    const Launch launch{*this, in, out, step.scratch < 0 ? nullptr : arena_.data() + step.scratch};
    if (profile.times_ops)
      compute_timed(graph, step, launch);
    else
      backend_->compute(node.op, launch);
  }
}

void Runtime::compute_timed(const Graph& graph, const Plan::Step& step, const Launch& launch) {
  const Node& node = graph.node_at(step.node);
  backend_->synchronize();
  if (graph.has_backward()) profile.enter(graph.of_backward(step.node) ? "backward" : "forward");
  const double start = seconds_now(), waited = pool_.waiting();
  backend_->compute(node.op, launch);
  backend_->synchronize();
  step.seconds = seconds_now() - start;

  std::vector<Tensor> in(launch.in.begin(), launch.in.end());
  std::deque<std::vector<int32_t>> seen;  // some ops count by their inputs' values, integers
  for (size_t i = 0; i < in.size() && !backend_->on_host(); ++i) {
    void* there = std::exchange(in[i].data, nullptr);
    if (const Node& from = graph.node_at(node.inputs[i].node); from.input) {
      in[i].data = from.data;
    } else if (in[i].dtype() == DType::kI32) {
      auto& values = seen.emplace_back(static_cast<size_t>(in[i].elements()));
      backend_->download(values.data(), there, values.size() * sizeof(int32_t));
      in[i].data = values.data();
    }
  }
  step.flops = node.op.flops(in);

  Profile::OpTime time{
      .seconds = step.seconds, .waiting = pool_.waiting() - waited, .flops = step.flops, .bytes = 0, .calls = 1};
  for (const auto& tensor : launch.in) time.bytes += static_cast<double>(tensor.spec.bytes());
  for (const auto& tensor : launch.out) time.bytes += static_cast<double>(tensor.spec.bytes());
  profile.count(node.op.name(), time);
}

std::string Runtime::plan_table() const { return last_ == nullptr ? "no plan was run\n" : last_->table(); }

}  // namespace nmt
