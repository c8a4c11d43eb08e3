#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nmt {

// Where the time of a run goes: by phase, by op. The run is always in exactly one phase, so the phases' sum is the time
// since the start.
class Profile {
 public:
  explicit Profile(bool ops = false) : times_ops(ops) {}

  bool times_ops;      // only where somebody wants to see it
  double waiting = 0;  // seconds of threads that have nothing to do, to be added to what the pool says

  // From now on the time is this phase's; before the first call it is that of the phase "start". Returns the one
  // before.
  std::string_view enter(std::string_view phase);

  struct OpTime {
    double seconds = 0, waiting = 0, flops = 0, bytes = 0;  // waiting: of all threads; bytes of inputs and outputs
    int64_t calls = 0;

    void add(const OpTime& other, double share = 1);  // of the other's seconds
  };
  OpTime& op(std::string_view name) { return ops_.try_emplace(std::string(name)).first->second; }
  const std::map<std::string, OpTime>& ops() const { return ops_; }
  // What one op has taken, for the op and for the phase.
  void count(std::string_view op, const OpTime& time);

  // Takes `share` of another run's times up to now, instead of as much time of the phase `from`.
  void absorb(Profile& other, double share, std::string_view from);
  double seconds(std::string_view phase) const;

  // A table of the phases and one of the ops, with the rates of arithmetic and memory: of a phase, what its ops do over
  // all its time. pool_waiting: seconds that its `threads` together had nothing to do.
  std::string table(int threads, double pool_waiting);

 private:
  using Clock = std::chrono::steady_clock;
  struct PhaseTime {
    std::string name;
    Clock::duration time{};
    OpTime ops = {};  // all of them
  };

  PhaseTime& phase(std::string_view name);
  void update();  // the current phase's time, up to now

  std::vector<PhaseTime> phases_ = {{"start"}};  // in the order of their first time
  size_t current_ = 0;
  Clock::time_point since_ = Clock::now();
  std::map<std::string, OpTime> ops_;
};

// A phase within another one: that goes on where this ends.
class PhaseScope {
 public:
  PhaseScope(Profile& profile, std::string_view phase) : profile_(profile), before_(profile.enter(phase)) {}
  ~PhaseScope() { profile_.enter(before_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Profile& profile_;
  std::string before_;
};

}  // namespace nmt
