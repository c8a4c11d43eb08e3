#include "graph/plan.h"

#include <algorithm>

#include "base/error.h"

namespace nmt {
namespace {

// Free ranges of the arena, by offset; neighbours are joined. A request takes the smallest range that holds it.
class FreeRanges {
 public:
  int64_t take(int64_t bytes) {
    auto best = ranges_.end();
    for (auto it = ranges_.begin(); it != ranges_.end(); ++it)
      if (it->second >= bytes && (best == ranges_.end() || it->second < best->second)) best = it;
    if (best == ranges_.end()) {
      // Grow: from the last free range where it reaches the end.
      int64_t offset = end_;
      if (!ranges_.empty() && ranges_.rbegin()->first + ranges_.rbegin()->second == end_) {
        offset = ranges_.rbegin()->first;
        ranges_.erase(std::prev(ranges_.end()));
      }
      end_ = offset + bytes;
      return offset;
    }
    const auto [offset, size] = *best;
    ranges_.erase(best);
    if (size > bytes) ranges_[offset + bytes] = size - bytes;
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    auto next = ranges_.lower_bound(offset);
    if (next != ranges_.end() && offset + bytes == next->first) {
      bytes += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    ranges_[offset] = bytes;
  }

  int64_t end() const { return end_; }

 private:
  std::map<int64_t, int64_t> ranges_;
  int64_t end_ = 0;
};

bool is_sink(const Node& node, size_t output) { return output < node.sinks.size() && node.sinks[output] >= 0; }

bool writes_outside(const Node& node) {  // must run although nobody reads its value
  return std::ranges::any_of(node.sinks, [](int32_t sink) { return sink >= 0; });
}

std::vector<bool> needed_nodes(const Graph& graph, std::span<const Value> outputs) {
  const auto& nodes = graph.nodes();
  std::vector<bool> needed(nodes.size());
  for (const Value& v : outputs) needed[static_cast<size_t>(v.node)] = true;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (writes_outside(nodes[n])) needed[n] = true;
    if (!needed[n]) continue;
    for (const Value& v : nodes[n].inputs) needed[static_cast<size_t>(v.node)] = true;
  }
  return needed;
}

}  // namespace

Plan Plan::make(const Graph& graph, std::span<const Value> outputs, bool on_host) {
  const auto& nodes = graph.nodes();
  const auto needed = needed_nodes(graph, outputs);

  // The last reader of every value; outputs are read "after the end".
  const auto kEnd = static_cast<int32_t>(nodes.size());
  std::vector<std::vector<int32_t>> last(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) last[n].assign(nodes[n].outputs.size(), static_cast<int32_t>(n));
  const auto use = [&](Value v, int32_t by) { last[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)] = by; };
  for (size_t n = 0; n < nodes.size(); ++n)
    if (needed[n])
      for (const Value& v : nodes[n].inputs) use(v, static_cast<int32_t>(n));
  for (const Value& v : outputs) use(v, kEnd);
  std::vector<std::vector<Value>> dying(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n)
    if (needed[n] && nodes[n].op)
      for (size_t o = 0; o < last[n].size(); ++o)
        if (last[n][o] != kEnd && !is_sink(nodes[n], o))
          dying[static_cast<size_t>(last[n][o])].push_back({static_cast<int32_t>(n), static_cast<int32_t>(o)});

  Plan plan;
  FreeRanges ranges;
  std::vector<std::vector<int64_t>> offset(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    if (!needed[n] || !node.op) continue;
    Step step{static_cast<int32_t>(n), {}, -1, 0, 0};
    std::vector<Spec> specs;
    for (const Value& v : node.inputs) specs.push_back(graph.spec(v));
    const int reused = node.op.in_place();
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const int64_t bytes = aligned(node.outputs[o].bytes());
      if (is_sink(node, o)) {
        step.offsets.push_back(-1);
        continue;
      }
      if (o == 0 && reused >= 0 && static_cast<size_t>(reused) < node.inputs.size()) {
        const Value from = node.inputs[static_cast<size_t>(reused)];
        const auto producer = static_cast<size_t>(from.node);
        const bool owned = nodes[producer].op && !is_sink(nodes[producer], static_cast<size_t>(from.output));
        const bool dies = owned && last[producer][static_cast<size_t>(from.output)] == static_cast<int32_t>(n);
        if (dies && std::ranges::count(node.inputs, from) == 1 && aligned(graph.spec(from).bytes()) == bytes) {
          step.offsets.push_back(offset[producer][static_cast<size_t>(from.output)]);
          std::erase(dying[n], from);
          continue;
        }
      }
      step.offsets.push_back(ranges.take(bytes));
    }
    offset[n] = step.offsets;
    if (const int64_t scratch = aligned(node.op.scratch(specs, on_host)); scratch > 0) {
      step.scratch = ranges.take(scratch);
      ranges.give(step.scratch, scratch);
    }
    for (const Value& v : dying[n]) {
      const auto producer = static_cast<size_t>(v.node);
      ranges.give(offset[producer][static_cast<size_t>(v.output)], aligned(graph.spec(v).bytes()));
    }
    plan.steps.push_back(std::move(step));
  }
  plan.bytes = ranges.end();

  for (const Node& node : nodes) plan.signature.nodes.push_back({node.op, node.inputs, node.outputs, node.sinks});
  plan.signature.outputs.assign(outputs.begin(), outputs.end());
  return plan;
}

uint64_t Plan::hash(const Graph& graph, std::span<const Value> outputs) {
  uint64_t h = graph.nodes().size();
  const auto mix = [&](uint64_t x) { h = (h ^ x) * 0x9E3779B97F4A7C15u ^ (h >> 29); };
  for (const Node& node : graph.nodes()) {
    mix(node.op ? reinterpret_cast<uintptr_t>(node.op.name().data()) : 0);
    for (const Value& v : node.inputs) mix(static_cast<uint64_t>(v.node) << 8 | static_cast<uint64_t>(v.output));
    for (const Spec& spec : node.outputs)
      for (const int64_t length : spec.shape) mix(static_cast<uint64_t>(length));
  }
  for (const Value& v : outputs) mix(static_cast<uint64_t>(v.node));
  return h;
}

bool Plan::fits(const Graph& graph, std::span<const Value> outputs) const {
  const auto& nodes = graph.nodes();
  if (signature.nodes.size() != nodes.size() || !std::ranges::equal(signature.outputs, outputs)) return false;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto& entry = signature.nodes[n];
    if (!(entry.op == nodes[n].op && entry.inputs == nodes[n].inputs && entry.outputs == nodes[n].outputs &&
          entry.sinks == nodes[n].sinks))
      return false;
  }
  return true;
}

std::string Plan::table() const {
  std::string text = fmt::format("{:>5}  {:<28} {:<18} {:>12} {:>12} {:>11} {:>10}\n", "node", "op", "shape", "bytes",
                                 "offset", "MFLOP", "ms");
  double flops = 0, seconds = 0;
  for (const Step& step : steps) {
    const auto& entry = signature.nodes[static_cast<size_t>(step.node)];
    for (size_t o = 0; o < entry.outputs.size(); ++o) {
      const Spec& spec = entry.outputs[o];
      text += fmt::format("{:>5}  {:<28} {:<18} {:>12} {:>12} {:>11} {:>10}\n", step.node,
                          o == 0 ? entry.op.name() : "", fmt::format("{}{}", name_of(spec.dtype), spec.shape),
                          spec.bytes(), step.offsets[o] < 0 ? "gradient" : fmt::format("{}", step.offsets[o]),
                          o == 0 ? fmt::format("{:.2f}", step.flops * 1e-6) : "",
                          o == 0 ? fmt::format("{:.3f}", step.seconds * 1e3) : "");
    }
    flops += step.flops;
    seconds += step.seconds;
  }
  return text + fmt::format("total: {} steps, {} bytes of arena, {:.2f} GFLOP, {:.3f} ms\n", steps.size(), bytes,
                            flops * 1e-9, seconds * 1e3);
}

}  // namespace nmt
