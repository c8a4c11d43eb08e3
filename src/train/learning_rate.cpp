#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "train/train_options.h"

namespace nmt {

std::span<const Schedule> schedules() {
  static const Schedule all[] = {
      {"inverse-sqrt", [](double step, double warmup) { return std::sqrt(warmup / step); }},
      {"constant", [](double, double) { return 1.0; }},
  };
  return all;
}

double learning_rate(const TrainOptions& o, int64_t step) {
  const auto warmup = static_cast<double>(o.lr_warmup), s = static_cast<double>(step);
  const double peak = o.learn_rate > 0 ? o.learn_rate : o.lr_scale / std::sqrt(o.model.dim_emb * warmup);
  const auto schedule = std::ranges::find(schedules(), o.lr_schedule, &Schedule::name);
  check(schedule != schedules().end(), "no schedule {}", o.lr_schedule);
  return peak * std::min(s / warmup, schedule->share_left(s, warmup));
}

}  // namespace nmt
