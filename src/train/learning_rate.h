#pragma once

#include <cstdint>
#include <span>

namespace nmt {

struct TrainOptions;

// What follows the warm-up.
struct Schedule {
  const char* name;
  double (*share_left)(double step, double warmup);  // of the highest rate
};
std::span<const Schedule> schedules();  // all of them: --lr-schedule knows them from here

// The learning rate of update `step` (from 1): peak * min(step / warmup, the schedule's share), which by inverse-sqrt
// is sqrt(warmup / step); with the paper's peak, scale * (d_model * warmup)^-0.5, this is equation 3 of "Attention Is
// All You Need".
double learning_rate(const TrainOptions& options, int64_t step);

}  // namespace nmt
