#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/math.h"
#include "graph/graph.h"

namespace nmt {

// Where and in which order a graph is computed: which nodes, and the offset of every tensor in one arena. Made from
// structure and shapes alone, so that it serves every graph that looks the same.
struct Plan {
  struct Step {
    int32_t node;
    std::vector<int64_t> offsets;  // by output; -1: not in the arena (it accumulates into a parameter's gradient)
    int64_t scratch = -1;          // offset of the working memory
    mutable double flops = 0, seconds = 0;  // of the last run, when profiled
  };

  // What the plan was made from, to be compared (a hash alone is never trusted).
  struct Signature {
    struct Entry {
      Op op;
      std::vector<Value> inputs;
      std::vector<Spec> outputs;
      std::vector<int32_t> sinks;
    };
    std::vector<Entry> nodes;
    std::vector<Value> outputs;
  };

  Signature signature;
  std::vector<Step> steps;
  int64_t bytes = 0;  // of the arena

  static constexpr int64_t kAlign = 64;
  static constexpr int64_t aligned(int64_t bytes) { return round_up(bytes, kAlign); }
  static constexpr int64_t f32_bytes(int64_t elements) { return aligned(elements * int64_t{sizeof(float)}); }

  // `outputs` keep their memory to the end; every other tensor's memory is free after its last use. Working memory is
  // that of the host's or of a device's kernels.
  static Plan make(const Graph& graph, std::span<const Value> outputs, bool on_host = true);
  // The same for graphs of the same structure and shapes; fits() says whether they really are.
  static uint64_t hash(const Graph& graph, std::span<const Value> outputs);
  bool fits(const Graph& graph, std::span<const Value> outputs) const;
  // A line for each result (node, op, shape, bytes, offset, FLOPs, time of the last profiled run), and the totals.
  std::string table() const;
};

}  // namespace nmt
