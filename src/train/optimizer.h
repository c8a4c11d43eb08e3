#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/aligned.h"
#include "graph/runtime.h"
#include "nn/parameters.h"
#include "tensor/update.h"
#include "train/train_options.h"

namespace nmt {

// What the options make of update `step`.
UpdateRule update_rule(const TrainOptions& options, int64_t step);

// What Adam (Kingma and Ba 2015) keeps of each parameter, in the layout of Parameters::values(), on the host.
struct Moments {
  AlignedVector<float> mean, variance;  // start at 0
  AlignedVector<float> smoothed;        // empty without --exponential-smoothing

  Moments(int64_t parameters, bool smooths)
      : mean(static_cast<size_t>(parameters)), variance(mean.size()), smoothed(smooths ? mean.size() : 0) {}

  // Smoothing, if there is any, starts from these values: those of a new model, or of a checkpoint that has no smoothed
  // ones.
  void start_smoothing(std::span<const float> values) {
    if (!smoothed.empty()) std::ranges::copy(values, smoothed.begin());
  }
};

// Updates parameters [begin, end) where a backend computes: adds up the loss, takes the gradient's norm, decides
// (tensor/update.h) and updates, with exponential smoothing of the parameters on request: smoothed += weight * (value -
// smoothed). The host waits for nothing of it before it asks for the outcome().
class Optimizer {
 public:
  // `last`: the update that was made last, where this goes on from. The moments live as long as this object.
  Optimizer(std::shared_ptr<Backend> backend, Moments& moments, int64_t begin, int64_t end, const Update& last = {});

  // Begins an update; then add_loss() for each batch's loss, which lies where the backend computes.
  void begin_update();
  void add_loss(const float* loss) { backend_->add_to(loss, &totals()->loss); }
  // When all gradients are there: the sum of their squares (pointers to the first of all parameters, as ever).
  void take_squares(ThreadPool& pool, const float* gradients);
  UpdateTotals* totals() const { return reinterpret_cast<UpdateTotals*>(totals_.data()); }
  // Decides, updates and sets the gradients of [begin, end) to zero.
  void update(ThreadPool& pool, const UpdateRule& rule, Parameters& parameters);
  // Of the oldest update that was not asked for yet; of them there may be kLate at a time.
  Update outcome();
  static constexpr int kLate = 2;

  void download();  // the moments

 private:
  std::shared_ptr<Backend> backend_;
  int64_t first_, end_;  // parameters [first_, end_)
  FloatBuffer mean_, variance_, smoothed_;
  Buffer totals_, update_;
  std::array<std::unique_ptr<Message>, kLate> outcomes_;
  uint64_t updated_ = 0, asked_ = 0;  // updates
};

// Euclidean norm of n floats in the memory of the runtime's backend; the same bits whatever the number of threads.
double norm(Runtime& runtime, int64_t n, const float* x);

}  // namespace nmt
