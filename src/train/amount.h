#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nmt {

// How far training has come.
struct TrainingProgress {
  int64_t updates = 0;
  int64_t epochs = 0;        // completed
  bool epoch_ended = false;  // by the last update
  int64_t sentences = 0;
  int64_t tokens = 0;  // target tokens
  double seconds = 0;  // of training, over all runs

  int64_t epoch() const { return epochs + (epoch_ended ? 0 : 1); }  // that of the last update, from 1
  bool operator==(const TrainingProgress&) const = default;
};

// "1000u" updates, "10e" epochs, "1Gt" target tokens, "10min" (also s, h) of training; K, M, G multiply; a bare number
// counts updates.
struct Amount {
  enum class Unit { kUpdates, kEpochs, kTokens, kSeconds };
  Unit unit = Unit::kUpdates;
  double count = 0;

  // Throws UserError naming the option. A count of 0 is never reached or crossed.
  static Amount parse(const std::string& option, const std::string& text);
  static std::vector<Amount> parse_list(const std::string& option, const std::string& text);  // separated by commas

  double measured(const TrainingProgress& p) const;
  bool reached(const TrainingProgress& p) const { return count > 0 && measured(p) >= count; }
  // Whether a multiple of the amount lies in (before, now].
  bool crossed(const TrainingProgress& before, const TrainingProgress& now) const;
};

}  // namespace nmt
