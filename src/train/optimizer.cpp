#include "train/optimizer.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "train/learning_rate.h"

namespace nmt {

UpdateRule update_rule(const TrainOptions& o, int64_t step) {
  return {.rate = learning_rate(o, step),
          .beta1 = o.adam[0],
          .beta2 = o.adam[1],
          .epsilon = o.adam[2],
          .smoothing = o.exponential_smoothing,
          .clip_norm = o.clip_norm,
          .skip_factor = o.skip_factor};
}

Optimizer::Optimizer(std::shared_ptr<Backend> backend, Moments& moments, int64_t begin, int64_t end, const Update& last)
    : backend_(std::move(backend)),
      first_(begin),
      end_(end),
      totals_(backend_, sizeof(UpdateTotals)),
      update_(backend_, sizeof(Update)) {
  const auto shard = [&](AlignedVector<float>& all) {
    return FloatBuffer(backend_, std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  mean_ = shard(moments.mean);
  variance_ = shard(moments.variance);
  if (!moments.smoothed.empty()) smoothed_ = shard(moments.smoothed);
  backend_->upload(update_.data(), &last, sizeof last);
  for (auto& outcome : outcomes_) outcome = backend_->message(sizeof(Update));
}

void Optimizer::begin_update() { backend_->zero(totals_.data(), totals_.bytes()); }

void Optimizer::take_squares(ThreadPool& pool, const float* gradients) {
  if (end_ > first_) backend_->sum_of_squares(pool, end_ - first_, gradients + first_, &totals()->squares);
}

void Optimizer::update(ThreadPool& pool, const UpdateRule& rule, Parameters& p) {
  auto* update = reinterpret_cast<Update*>(update_.data());
  backend_->decide(rule, totals(), update);
  if (end_ > first_)
    backend_->adam(pool, update, end_ - first_, p.gradient_buffer().data() + first_, mean_.data(), variance_.data(),
                   p.value_buffer().data() + first_, smoothed_.data());
  check(updated_ - asked_ < kLate, "updates whose outcome nobody asks for");
  outcomes_[updated_++ % kLate]->send(update, sizeof *update);
}

Update Optimizer::outcome() {
  check(asked_ < updated_, "the outcome of an update that was not begun");
  Update update;
  std::memcpy(&update, outcomes_[asked_++ % kLate]->receive(), sizeof update);
  return update;
}

void Optimizer::download() {
  for (FloatBuffer* buffer : {&mean_, &variance_, &smoothed_}) buffer->download();
}

double norm(Runtime& runtime, int64_t n, const float* x) {
  const Buffer sum(runtime.backend(), sizeof(double));
  runtime.backend()->sum_of_squares(runtime.pool(), n, x, reinterpret_cast<double*>(sum.data()));
  double squares = 0;
  runtime.backend()->download(&squares, sum.data(), sizeof squares);
  return std::sqrt(squares);
}

}  // namespace nmt
