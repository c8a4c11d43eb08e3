#include "train/dry_run.h"

#include <algorithm>
#include <fstream>
#include <functional>

#include <malloc.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/progress.h"
#include "train/amount.h"
#include "train/loss_scale.h"
#include "train/tasks.h"
#include "train/train_log.h"
#include "train/training_setup.h"

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
  for (bool ended = false; !ended; ++epoch.updates)
    for (TrainingBatch& next : next_update([&] { return stream.next(); }, optimizer_delay)) {
      epoch.tokens += next.batch.target_words();
      epoch.flops += flops(next.batch);
      ended = next.ends_epoch();
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

// Target tokens a second in updates of such batches, which change nothing.
double tokens_per_second(Replicas& replicas, const Batch& batch, const TrainOptions& options) {
  UpdateRule still = update_rule(options, 1);
  still.rate = 0;
  const int64_t tokens = batch.target_words();
  const auto seconds_of_update = [&](int batches) {
    const double start = seconds_now();
    replicas.accumulate(std::vector<Batch>(static_cast<size_t>(batches), batch), batches * tokens, 0);
    replicas.update(still);
    replicas.outcome();
    return seconds_now() - start;
  };
  constexpr int kMost = 8;  // batches that are computed; each further one takes as long as these on average
  const int delay = options.optimizer_delay, computed = std::min(delay, kMost);
  seconds_of_update(1);  // to warm up
  double seconds = seconds_of_update(computed);
  if (delay > computed) seconds += (delay - computed) * (seconds - seconds_of_update(1)) / (computed - 1);
  return static_cast<double>(delay) * static_cast<double>(tokens) / seconds;
}

void print_cost(const TrainOptions& options, const EpochCount& epoch, double rate, double tokens_until_end) {
  const double per_token = epoch.flops / static_cast<double>(epoch.tokens);
  print("cost: {:.3e} FLOP a target token, {:.3e} an update, {:.3e} an epoch; here {:.2f} TFLOP/s\n", per_token,
        epoch.flops / static_cast<double>(epoch.updates), epoch.flops, per_token * rate * 1e-12);
  if (tokens_until_end < 0) return;
  const double cost = per_token * tokens_until_end;
  print("cost to --after {}: {:.2e} FLOP, counted op by op\n", options.after, cost);
  if (epoch.updates < kFewUpdates)
    log::warn("the text makes only {} updates, of which the last is not full: a longer one costs more an update",
              epoch.updates);
  const auto task = std::ranges::find(tasks(), options.task, &Task::name);
  if (task == tasks().end() || task->paper_hours == 0) return;
  const double estimate = task->paper_hours * 3600 * kPaperDevices * kPaperRate;
  print(
      "the paper's estimate: {:.2e} FLOP, {:g} hours x {} devices x {:g} TFLOP/s sustained: what they could have "
      "computed in that time, of which the count is {:.0f}%\n",
      estimate, task->paper_hours, kPaperDevices, kPaperRate * 1e-12, 100 * cost / estimate);
}

}  // namespace

void dry_run(const TrainOptions& given) {
  log::set_quiet(given.quiet);
  TrainingSetup setup(given);
  setup.load_data();
  setup.initialise();
  setup.start();
  const TrainOptions& options = setup.options;
  Replicas& replicas = *setup.replicas;
  const EpochCount epoch = count_epoch(BatchStream(setup.corpus, options.data, options.seed), options.optimizer_delay,
                                       [&](const Batch& batch) { return options.cost ? replicas.flops(batch) : 0; });
  const Runtime& runtime = replicas.first();
  const int64_t heap = allocated(), n = setup.model->parameters.size();
  setup.reserve();
  const double rate = tokens_per_second(replicas, epoch.largest, options);
  print("parameters: {}\n", with_commas(n));
  print(
      "memory: parameters, gradients and optimizer {:.1f} MB, packed matrices {:.1f} MB, workspace {:.1f} MB, "
      "scratch of threads and graph {:.1f} MB\n",
      megabytes(n * (setup.moments->smoothed.empty() ? 16 : 20)), megabytes(runtime.packed_bytes()),
      megabytes(runtime.arena_bytes()), megabytes(scratch_since(heap, runtime)));
  if (!replicas.on_host()) print("memory of a device: {:.1f} MB for tensors\n", megabytes(replicas.peak()));
  print("largest batch: {} pairs, {} source and {} target tokens\n", epoch.largest.sentences(),
        epoch.largest.source_words(), epoch.largest.target_words());
  print("epoch: {} updates, {} target tokens\n", with_commas(epoch.updates), with_commas(epoch.tokens));
  const double until_end = tokens_until_end(Amount::parse_list("after", options.after), epoch, rate);
  print("speed: {:.0f} target tokens/s, {} an epoch\n", rate,
        hours_minutes_seconds(static_cast<double>(epoch.tokens) / rate));
  if (until_end >= 0) print("time to --after {}: {}\n", options.after, hours_minutes_seconds(until_end / rate));
  if (options.cost) print_cost(options, epoch, rate, until_end);
}

void dump_plan(const TrainOptions& given) {
  log::set_quiet(given.quiet);
  TrainingSetup setup(given);
  setup.load_data();
  setup.initialise();
  setup.start();
  setup.report();
  Runtime& runtime = setup.replicas->first();
  runtime.profile.times_ops = true;
  BatchStream stream(setup.corpus, setup.options.data, setup.options.seed);
  std::vector<Batch> batches;
  int64_t tokens = 0;
  for (TrainingBatch& next : next_update([&] { return stream.next(); }, setup.options.optimizer_delay)) {
    tokens += next.batch.target_words();
    batches.push_back(std::move(next.batch));
  }
  LossScale scale;
  scale.start(setup.options.scales_loss());
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
  const Memory before = memory();
  const int64_t heap = allocated();
  setup.replicas->accumulate(batches, tokens, 0, scale.value);
  const Memory after = memory();
  const int64_t planned = runtime.arena_bytes() + runtime.packed_bytes(), rest = scratch_since(heap, runtime);
  print("{}", runtime.plan_table());
  print(
      "arena {:.1f} MB, packed matrices {:.1f} MB, scratch of threads and graph {:.1f} MB, together {:.1f} MB; peak "
      "memory rose by {:.1f} MB, and {:.1f} MB of code was loaded\n",
      megabytes(runtime.arena_bytes()), megabytes(runtime.packed_bytes()), megabytes(rest), megabytes(planned + rest),
      megabytes(after.peak - before.now - (after.files - before.files)), megabytes(after.files - before.files));
}

}  // namespace nmt
