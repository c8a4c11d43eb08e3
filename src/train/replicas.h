#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/communicator.h"
#include "base/worker.h"
#include "graph/runtime.h"
#include "nn/model.h"
#include "text/batch.h"
#include "train/optimizer.h"
#include "train/train_options.h"

namespace nmt {

// Those who compute updates together: the host, one device, or several. Each has all parameters and computes the
// gradients of its part of every batch. Then each adds up one share of the gradients from all, updates that share of
// the parameters, whose moments it alone keeps, and gives it to the others (Rajbhandari et al. 2020, section 5.2). With
// several devices an update is that of one device, up to rounding and to other dropout masks.
class Replicas {
 public:
  // Where memory does not suffice for a model's parameters, gradients and moments.
  static constexpr const char* kAdvice =
      "a smaller model needs less (--dim-emb, --transformer-dim-ffn, --enc-depth, --dec-depth)";

  // Takes memory for the model's parameters and gradients. UserError for devices that cannot be used together.
  Replicas(const TrainOptions& options, Model& model);

  // The first one, which does what one alone can: validation, reports.
  Runtime& first() { return replicas_.front()->runtime; }
  size_t count() const { return replicas_.size(); }
  std::string names() const;
  bool on_host() { return first().backend()->on_host(); }

  // Goes on from these moments, the model's values, and the last update. The moments live as long as this object.
  void start(Moments& moments, const Update& last);

  // Takes the workspace that updates by batches need of which no part (Batch::part) is larger than this one. Devices
  // take all other memory, too, and begin everything that an update begins: whether they suffice is known now. Nothing
  // is updated.
  void reserve(const Batch& largest_part);
  // Floating point operations of the loss of a batch and its gradients, counted in the plan.
  double flops(const Batch& batch);
  int64_t used() const;  // bytes of the first device's memory; on the host 0
  int64_t peak() const;

  // An update: gradients of loss_scale * the mean loss of all batches' target tokens, of which there are `tokens`;
  // batch i draws dropout masks of step + i. Then update(); its loss is known by outcome(). What was begun goes on
  // meanwhile.
  void accumulate(const std::vector<Batch>& batches, int64_t tokens, int64_t step, double loss_scale = 1);
  void update(const UpdateRule& rule);
  Update outcome();

  // The norm of gradients [begin, begin + n), between accumulate() and update().
  double gradient_norm(int64_t begin, int64_t n);

  // The model's values on the host have changed; or are to be what they are on the devices, the moments too.
  void upload_values();
  void download();

 private:
  struct Replica {
    Replica(int threads, DType compute, std::shared_ptr<Backend> backend)
        : runtime(threads, compute, false, std::move(backend)) {}

    std::unique_ptr<Worker> worker;  // where there are others
    Runtime runtime;
    Parameters* parameters = nullptr;  // the model's for the first, and for the others:
    std::unique_ptr<Parameters> own;
    std::unique_ptr<Optimizer> optimizer;
    std::unique_ptr<cuda::Communicator> others;  // null where there is one replica
  };

  Expr loss(Replica& replica, Graph& graph, const PairInput& input, const float* weight) const;
  void each(const std::function<void(Replica& replica, size_t rank)>& work);
  void synchronize();                   // waits for all that was begun
  int64_t begin_of(size_t rank) const;  // of its share of the parameters
  DType sent() const;                   // what gradients are rounded to on their way to others

  const TrainOptions& options_;
  Model& model_;
  int64_t share_ = 0;  // floats of parameters that each updates
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace nmt
