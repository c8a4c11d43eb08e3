#pragma once

#include <memory>
#include <span>

#include "graph/runtime.h"
#include "nn/parameters.h"
#include "train/train_options.h"

namespace nmt {

// The learning rate of update `step` (from 1): peak * min(step / warmup, sqrt(warmup / step)); with the paper's peak,
// scale * (d_model * warmup)^-0.5, this is equation 3 of "Attention Is All You Need".
double learning_rate(const TrainOptions& options, int64_t step);

// Adam (Kingma and Ba 2015) on flat buffers of the layout of Parameters::values(), with exponential smoothing of the
// parameters on request: smoothed += weight * (value - smoothed) after each update, weight being
// --exponential-smoothing.
class Optimizer {
 public:
  // For this number of parameter values; both means start at 0. There is no smoothing before start_smoothing.
  Optimizer(const TrainOptions& options, int64_t parameters, std::shared_ptr<Backend> backend = host_backend());

  // Euclidean norm of n gradients in the memory of the runtime's backend; the same bits whatever the number of threads.
  static double norm(Runtime& runtime, int64_t n, const float* gradients);

  // One update with gradients * gradient_scale at learning rate `rate`; sets the gradients to zero. step: the number of
  // this update among those that were made, from 1 (it corrects the bias of the means, which start at 0).
  void update(Runtime& runtime, Parameters& parameters, int64_t step, double rate, double gradient_scale);

  // Smoothing starts from these values: those of a new model, or of a checkpoint that has no smoothed ones. Does
  // nothing where the options ask for no smoothing.
  void start_smoothing(std::span<const float> values);

  // [parameters] each, on the host; see FloatBuffer for what that means on a device
  std::span<float> mean() { return mean_.host(); }
  std::span<float> variance() { return variance_.host(); }
  std::span<float> smoothed() { return smoothed_.host(); }  // empty without smoothing, or before start_smoothing
  void upload();
  void download();

 private:
  std::shared_ptr<Backend> backend_;
  double beta1_, beta2_, epsilon_, smoothing_;
  FloatBuffer mean_, variance_, smoothed_;
};

}  // namespace nmt
