#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace nmt {

double learning_rate(const TrainOptions& o, int64_t step) {
  const auto warmup = static_cast<double>(o.lr_warmup), s = static_cast<double>(step);
  const double peak = o.learn_rate > 0 ? o.learn_rate : o.lr_scale / std::sqrt(o.model.dim_emb * warmup);
  return peak * std::min(s / warmup, std::sqrt(warmup / s));
}

Optimizer::Optimizer(const TrainOptions& o, int64_t parameters, std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)),
      beta1_(o.adam[0]),
      beta2_(o.adam[1]),
      epsilon_(o.adam[2]),
      smoothing_(o.exponential_smoothing),
      mean_(backend_, static_cast<size_t>(parameters)),
      variance_(backend_, static_cast<size_t>(parameters)) {}

void Optimizer::start_smoothing(std::span<const float> values) {
  if (smoothing_ == 0) return;
  smoothed_ = FloatBuffer(backend_, values.size());
  std::ranges::copy(values, smoothed_.host().begin());
  smoothed_.upload();
}

void Optimizer::upload() {
  for (FloatBuffer* buffer : {&mean_, &variance_, &smoothed_}) buffer->upload();
}

void Optimizer::download() {
  for (FloatBuffer* buffer : {&mean_, &variance_, &smoothed_}) buffer->download();
}

double Optimizer::norm(Runtime& runtime, int64_t n, const float* gradients) {
  return std::sqrt(runtime.backend()->sum_of_squares(runtime.pool(), n, gradients));
}

void Optimizer::update(Runtime& runtime, Parameters& p, int64_t step, double rate, double gradient_scale) {
  const Adam adam{.rate = static_cast<float>(rate),
                  .beta1 = static_cast<float>(beta1_),
                  .beta2 = static_cast<float>(beta2_),
                  .eps = static_cast<float>(epsilon_),
                  .correction1 = static_cast<float>(1 - std::pow(beta1_, static_cast<double>(step))),
                  .correction2 = static_cast<float>(1 - std::pow(beta2_, static_cast<double>(step))),
                  .grad_scale = static_cast<float>(gradient_scale),
                  .smoothing = static_cast<float>(smoothing_)};
  backend_->adam(runtime.pool(), adam, p.size(), p.gradient_buffer().data(), mean_.data(), variance_.data(),
                 p.value_buffer().data(), smoothed_.data());
}

}  // namespace nmt
