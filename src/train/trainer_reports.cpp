// What nmt-train tells about a training: --log-gradients, epochs, --dry-run and --dump-plan.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <functional>

#include <malloc.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "train/tasks.h"
#include "train/trainer.h"

namespace nmt {
namespace {

// Resident memory of the process in bytes: the peak so far, now, and what of it is code and files.
struct Memory {
  int64_t peak = 0, now = 0, files = 0;
};
Memory memory() {
  std::ifstream status("/proc/self/status");
  Memory m;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) m.peak = std::stoll(line.substr(6)) * 1024;
    if (line.starts_with("VmRSS:")) m.now = std::stoll(line.substr(6)) * 1024;
    if (line.starts_with("RssFile:")) m.files = std::stoll(line.substr(8)) * 1024;
  }
  return m;
}

// Bytes that the program holds from malloc, in all threads.
int64_t allocated() {
  const auto info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// What was taken since `heap` bytes were allocated, beside the arena and packed matrices: all of these are newer. A
// device's arena is not malloc's.
int64_t scratch_since(int64_t heap, const Runtime& runtime) {
  const int64_t arena = runtime.backend()->on_host() ? runtime.arena_bytes() : 0;
  return std::max<int64_t>(0, allocated() - heap - arena - runtime.packed_bytes());
}

// Section 6.1: eight P100, and what it takes each to compute in a second.
constexpr int kPaperDevices = 8;
constexpr double kPaperRate = 9.5e12;

constexpr int kFewUpdates = 20;  // of an epoch: the last batch, which is not full, weighs

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

struct EpochCount {
  int64_t updates = 0, tokens = 0;  // target tokens
  double flops = 0;
  Batch largest;
};

// Without training on it.
EpochCount count_epoch(BatchStream stream, int optimizer_delay, const std::function<double(const Batch&)>& flops) {
  EpochCount epoch;
  const auto size = [](const Batch& b) { return b.source_words() + b.target_words(); };
  int in_update = 0;
  for (bool ended = false; !ended;) {
    TrainingBatch next = stream.next();
    epoch.tokens += next.batch.target_words();
    epoch.flops += flops(next.batch);
    ended = next.ends_epoch();
    if (++in_update == optimizer_delay || ended) {
      ++epoch.updates;
      in_update = 0;
    }
    if (size(next.batch) > size(epoch.largest)) epoch.largest = std::move(next.batch);
  }
  return epoch;
}

// Target tokens until the first end that is reached, at so many a second; negative: there is no end.
double tokens_until_end(std::span<const Amount> ends, const EpochCount& epoch, double rate) {
  const auto tokens = static_cast<double>(epoch.tokens);
  double until_end = -1;
  for (const Amount& end : ends) {
    if (end.count <= 0) continue;
    const double per_unit = end.unit == Amount::Unit::kUpdates  ? tokens / static_cast<double>(epoch.updates)
                            : end.unit == Amount::Unit::kEpochs ? tokens
                            : end.unit == Amount::Unit::kTokens ? 1
                                                                : rate;
    const double needed = end.count * per_unit;
    if (until_end < 0 || needed < until_end) until_end = needed;
  }
  return until_end;
}

void print_cost(const TrainOptions& options, const EpochCount& epoch, double rate, double tokens_until_end) {
  const double per_token = epoch.flops / static_cast<double>(epoch.tokens);
  fmt::print("cost: {:.3e} FLOP a target token, {:.3e} an update, {:.3e} an epoch; here {:.2f} TFLOP/s\n", per_token,
             epoch.flops / static_cast<double>(epoch.updates), epoch.flops, per_token * rate * 1e-12);
  if (tokens_until_end < 0) return;
  const double cost = per_token * tokens_until_end;
  fmt::print("cost to --after {}: {:.2e} FLOP, counted op by op\n", options.after, cost);
  if (epoch.updates < kFewUpdates)
    log::warn("the text makes only {} updates, of which the last is not full: a longer one costs more an update",
              epoch.updates);
  const auto task = std::ranges::find(tasks(), options.task, &Task::name);
  if (task == tasks().end() || task->paper_hours == 0) return;
  const double estimate = task->paper_hours * 3600 * kPaperDevices * kPaperRate;
  fmt::print(
      "the paper's estimate: {:.2e} FLOP, {:g} hours x {} devices x {:g} TFLOP/s sustained: what they could have "
      "computed in that time, of which the count is {:.0f}%\n",
      estimate, task->paper_hours, kPaperDevices, kPaperRate * 1e-12, 100 * cost / estimate);
}

}  // namespace

// The gradient's norm of each layer's sub-layers and of the embeddings.
std::map<std::string, double> Trainer::part_norms() {
  std::map<std::string, double> squares;
  for (const auto& e : model_->parameters.entries()) {
    // encoder.0.feed_forward.inner.weight belongs to encoder.0.feed_forward, source_embedding.weight to
    // source_embedding.
    const auto dot = [&](size_t from) { return std::min(e.name.find('.', from), e.name.size()); };
    const size_t number = dot(0) + 1;
    const bool in_layer = number < e.name.size() && std::isdigit(static_cast<unsigned char>(e.name[number])) != 0;
    const std::string part = e.name.substr(0, in_layer ? dot(dot(number) + 1) : e.name.rfind('.'));
    const double norm = replicas_->gradient_norm(e.offset, e.shape.elements());
    squares[part] += norm * norm;
  }
  for (auto& [part, value] : squares) value = std::sqrt(value) / state_.loss_scale.value;
  return squares;
}

void Trainer::report_epoch() {
  auto& e = state_.epoch;
  auto lines = EpochReport{corpus_->counts(), e.counts}.lines();
  lines.front() += fmt::format("; waited for data: {:.2f}% of {}", 100 * e.wait / std::max(1e-9, e.seconds),
                               hours_minutes_seconds(e.seconds));
  for (const auto& line : lines) log_.event(state_.progress, "epoch", line);
  e = {};
}

void Trainer::dry_run() {
  load_data();
  initialise();
  replicas_->start(*moments_, {});
  const EpochCount epoch = count_epoch(BatchStream(corpus_, options_.data, options_.seed), options_.optimizer_delay,
                                       [&](const Batch& batch) { return options_.cost ? replicas_->flops(batch) : 0; });
  const Runtime& runtime = replicas_->first();
  const int64_t heap = allocated(), n = model_->parameters.size();
  reserve();
  UpdateRule still = update_rule(options_, 1);
  still.rate = 0;
  // The largest batch is run once to warm up, and again for time.
  double seconds = 0;
  Step step;
  step.tokens = epoch.largest.target_words();
  for (int pass = 0; pass < 2; ++pass) {
    const double start = seconds_now();
    accumulate({epoch.largest}, step);
    replicas_->update(still);
    replicas_->outcome();
    seconds = seconds_now() - start;
  }
  fmt::print("parameters: {}\n", with_commas(n));
  fmt::print(
      "memory: parameters, gradients and optimizer {:.1f} MB, packed matrices {:.1f} MB, workspace {:.1f} MB, "
      "scratch of threads and graph {:.1f} MB\n",
      megabytes(n * (moments_->smoothed.empty() ? 16 : 20)), megabytes(runtime.packed_bytes()),
      megabytes(runtime.arena_bytes()), megabytes(scratch_since(heap, runtime)));
  if (!replicas_->on_host()) fmt::print("memory of a device: {:.1f} MB for tensors\n", megabytes(replicas_->peak()));
  fmt::print("largest batch: {} pairs, {} source and {} target tokens\n", epoch.largest.sentences(),
             epoch.largest.source_words(), epoch.largest.target_words());
  fmt::print("epoch: {} updates, {} target tokens\n", with_commas(epoch.updates), with_commas(epoch.tokens));
  const double rate = static_cast<double>(step.tokens) / seconds, until_end = tokens_until_end(ends_, epoch, rate);
  fmt::print("speed: {:.0f} target tokens/s, {} an epoch\n", rate,
             hours_minutes_seconds(static_cast<double>(epoch.tokens) / rate));
  if (until_end >= 0) fmt::print("time to --after {}: {}\n", options_.after, hours_minutes_seconds(until_end / rate));
  if (options_.cost) print_cost(options_, epoch, rate, until_end);
}

void Trainer::dump_plan() {
  load_data();
  initialise();
  prepare();
  Runtime& runtime = replicas_->first();
  runtime.profile.times_ops = true;
  Step step;
  const auto batches = next_batches(step);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
  const Memory before = memory();
  const int64_t heap = allocated();
  accumulate(batches, step);
  const Memory after = memory();
  const int64_t planned = runtime.arena_bytes() + runtime.packed_bytes(), rest = scratch_since(heap, runtime);
  fmt::print("{}", runtime.plan_table());
  fmt::print(
      "arena {:.1f} MB, packed matrices {:.1f} MB, scratch of threads and graph {:.1f} MB, together {:.1f} MB; peak "
      "memory rose by {:.1f} MB, and {:.1f} MB of code was loaded\n",
      megabytes(runtime.arena_bytes()), megabytes(runtime.packed_bytes()), megabytes(rest), megabytes(planned + rest),
      megabytes(after.peak - before.now - (after.files - before.files)), megabytes(after.files - before.files));
}

}  // namespace nmt
