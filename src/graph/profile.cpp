#include "graph/profile.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace nmt {

void Profile::OpTime::add(const OpTime& other, double share) {
  seconds += other.seconds * share;
  waiting += other.waiting * share;
  flops += other.flops;
  bytes += other.bytes;
  calls += other.calls;
}

Profile::PhaseTime& Profile::phase(std::string_view name) {
  const auto found = std::ranges::find(phases_, name, &PhaseTime::name);
  return found != phases_.end() ? *found : phases_.emplace_back(PhaseTime{std::string(name)});
}

void Profile::update() {
  const auto now = Clock::now();
  phases_[current_].time += now - since_;
  since_ = now;
}

std::string_view Profile::enter(std::string_view name) {
  update();
  const size_t before = current_;
  const PhaseTime* entered = &phase(name);  // may move the others
  current_ = static_cast<size_t>(entered - phases_.data());
  return phases_[before].name;
}

void Profile::count(std::string_view name, const OpTime& time) {
  op(name).add(time);
  phases_[current_].ops.add(time);
}

void Profile::absorb(Profile& other, double share, std::string_view from) {
  other.update();
  for (const PhaseTime& p : other.phases_) {
    const auto time = std::chrono::duration_cast<Clock::duration>(p.time * share);
    PhaseTime& own = phase(p.name);
    own.time += time;
    own.ops.add(p.ops, share);
    phase(from).time -= time;
  }
  for (const auto& [name, time] : other.ops_) op(name).add(time, share);
}

double Profile::seconds(std::string_view name) const {
  const auto found = std::ranges::find(phases_, name, &PhaseTime::name);
  return found == phases_.end() ? 0 : std::chrono::duration<double>(found->time).count();
}

std::string Profile::table(int threads, double pool_waiting) {
  update();
  const auto seconds = [](const PhaseTime& p) { return std::chrono::duration<double>(p.time).count(); };
  double sum = 1e-9;
  for (const auto& phase : phases_) sum += seconds(phase);
  OpTime all;
  for (const auto& [name, time] : ops_) all.add(time);
  std::string text = fmt::format("{:<28} {:>10} {:>7} {:>10} {:>10}\n", "phase", "s", "%", "GFLOP/s", "GB/s");
  const auto add_phase = [&](std::string_view name, double spent, const OpTime& work) {
    const double giga = 1e-9 / std::max(1e-9, spent);
    text += fmt::format("{:<28} {:>10.3f} {:>7.2f} {:>10.2f} {:>10.2f}\n", name, spent, 100 * spent / sum,
                        work.flops * giga, work.bytes * giga);
  };
  for (const auto& phase : phases_) add_phase(phase.name, seconds(phase), phase.ops);
  add_phase("total", sum, all);
  text += fmt::format("waiting: {:.2f}% of the time of {} threads\n\n",
                      100 * (waiting + pool_waiting) / (sum * threads), threads);

  std::vector<std::pair<std::string, OpTime>> ops(ops_.begin(), ops_.end());
  std::ranges::sort(ops, std::greater<>(), [](const auto& op) { return op.second.seconds; });
  ops.emplace_back("total", all);
  text += fmt::format("{:<28} {:>10} {:>7} {:>10} {:>10} {:>10} {:>10}\n", "op", "s", "%", "calls", "GFLOP/s", "GB/s",
                      "waiting %");
  for (const auto& [name, time] : ops) {
    const double spent = std::max(1e-9, time.seconds);
    text += fmt::format("{:<28} {:>10.3f} {:>7.2f} {:>10} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, time.seconds,
                        100 * time.seconds / std::max(1e-9, all.seconds), time.calls, time.flops / spent * 1e-9,
                        time.bytes / spent * 1e-9, 100 * time.waiting / (spent * threads));
  }
  return text;
}

}  // namespace nmt
