#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/kernels.h"

namespace nmt {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements of one task and of one partial sum

}  // namespace

double learning_rate(const TrainOptions& o, int64_t step) {
  const auto warmup = static_cast<double>(o.lr_warmup), s = static_cast<double>(step);
  const double peak = o.learn_rate > 0 ? o.learn_rate : o.lr_scale / std::sqrt(o.model.dim_emb * warmup);
  return peak * std::min(s / warmup, std::sqrt(warmup / s));
}

Optimizer::Optimizer(const TrainOptions& o, int64_t parameters)
    : beta1_(o.adam[0]), beta2_(o.adam[1]), epsilon_(o.adam[2]), smoothing_(o.exponential_smoothing) {
  mean_.resize(static_cast<size_t>(parameters));
  variance_.resize(static_cast<size_t>(parameters));
}

void Optimizer::start_smoothing(std::span<const float> values) {
  if (smoothing_ > 0) smoothed_.assign(values.begin(), values.end());
}

double Optimizer::norm(ThreadPool& pool, std::span<const float> gradients) {
  const auto n = static_cast<int64_t>(gradients.size());
  std::vector<double> sums(static_cast<size_t>((n + kGrain - 1) / kGrain));
  pool.parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    sums[static_cast<size_t>(begin / kGrain)] = cpu::sum_of_squares(gradients.data() + begin, end - begin);
  });
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

void Optimizer::update(ThreadPool& pool, Parameters& p, int64_t step, double rate, double gradient_scale) {
  const Adam adam{.rate = static_cast<float>(rate),
                  .beta1 = static_cast<float>(beta1_),
                  .beta2 = static_cast<float>(beta2_),
                  .eps = static_cast<float>(epsilon_),
                  .correction1 = static_cast<float>(1 - std::pow(beta1_, static_cast<double>(step))),
                  .correction2 = static_cast<float>(1 - std::pow(beta2_, static_cast<double>(step))),
                  .grad_scale = static_cast<float>(gradient_scale),
                  .smoothing = static_cast<float>(smoothing_)};
  pool.parallel_for(p.size(), kGrain, [&](int64_t begin, int64_t end) {
    cpu::adam(adam, begin, end, p.gradients().data(), mean_.data(), variance_.data(), p.values().data(),
              smoothed_.empty() ? nullptr : smoothed_.data());
  });
}

}  // namespace nmt
