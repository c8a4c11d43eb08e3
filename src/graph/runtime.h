#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "graph/backend.h"
#include "graph/graph.h"
#include "graph/packed_weights.h"
#include "graph/plan.h"
#include "graph/profile.h"

namespace nmt {

// What outlives a graph: threads, the arena that plans place their tensors in, packed weights and cached plans.
// For one thread at a time.
class Runtime {
 public:
  // compute: the dtype of activations and matrix products, kF32 or kBF16, on a device also kF16. int8_weights: products
  // with parameters are computed in kI8 instead (see cpu::PackedMatrix), without gradients. Throws UserError for
  // bf16 without int8_weights where the processor has no products of it. On a device the threads are for what stays on
  // the host, and there is no int8.
  explicit Runtime(int threads, DType compute = DType::kF32, bool int8_weights = false,
                   std::shared_ptr<Backend> backend = host_backend());
  // One that computes the same on the host, with packed weights in common.
  Runtime(int threads, const Runtime& like);

  const std::shared_ptr<Backend>& backend() const { return backend_; }
  ThreadPool& pool() { return pool_; }
  DType compute() const { return compute_; }

  // Key of the dropout masks of the next runs.
  uint64_t seed = 1;
  uint32_t step = 0;

  // See PackedWeights.
  const cpu::PackedMatrix& packed(const Tensor& w, DType t, bool transposed) {
    return weights_->get(pool_, w, t, transposed);
  }
  void parameters_changed() {
    weights_->parameters_changed();
    backend_->parameters_changed();
  }
  // A parameter that lay here is not needed any more, or has changed.
  void forget(const void* data) {
    weights_->forget(data);
    backend_->forget(data);
  }
  PackedWeights& weights() { return *weights_; }
  // What this computes with on these devices: precision, threads and, on the host, kernels.
  std::string text(const std::string& devices) const;

  Profile profile;  // --profile; with times_ops, the plan's table has times too
  std::string profile_table() { return profile.table(pool_.size(), pool_.waiting()); }
  std::string plan_table() const;  // node, op, shape, bytes, offset, FLOPs, time of the plan run last

  // Gives back the memory that the runs so far have left for the next ones.
  void release_workspace();

  int64_t arena_bytes() const { return static_cast<int64_t>(arena_.bytes()); }  // the largest plan's so far
  int64_t packed_bytes() const { return weights_->bytes(); }                    // of all packed parameters
  int64_t plans_made() const { return plans_made_; }                            // the rest came from the cache
  int64_t recordings_begun() const { return recordings_begun_; }                // runs that were one recording each

 private:
  friend class Graph;
  void execute(Graph& graph, std::span<const Expr> outputs);
  void reserve(const Graph& graph, std::span<const Expr> outputs);
  double flops(const Graph& graph, std::span<const Expr> outputs);  // of ops that count by values of leaves alone
  void take_arena(const Plan& plan);
  void take_inputs(size_t bytes);
  // A plan, and what it was run on. Where that repeats, as in the steps of a search, it is recorded.
  struct Planned {
    struct Run {
      std::vector<uintptr_t> on;  // where leaves, gradients and workspace lie, and the backend's version
      int times = 0;
      std::unique_ptr<Recording> recording = nullptr;
    };
    Plan plan;
    std::deque<Run> runs;  // the newest few
  };

  Planned& planned(const Graph& graph, std::span<const Value> outputs);
  Planned::Run& run_of(Planned& planned, const Graph& graph, std::span<void* const> inputs);
  void place_results(Graph& graph, const Plan& plan);
  void compute(Graph& graph, const Plan& plan, std::span<void* const> inputs);
  void compute_timed(const Graph& graph, const Plan::Step& step, const Launch& launch);  // for the profile
  std::vector<void*> upload_inputs(const Graph& graph);

  std::shared_ptr<Backend> backend_;
  ThreadPool pool_;
  DType compute_;
  std::shared_ptr<PackedWeights> weights_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Planned>> plans_;
  int64_t plans_made_ = 0, recordings_begun_ = 0;
  Buffer arena_;
  Buffer inputs_;                      // of a run on a device
  std::vector<std::byte> all_inputs_;  // on their way there
  const Plan* last_ = nullptr;
};

}  // namespace nmt
