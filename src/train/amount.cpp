#include "train/amount.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace nmt {

Amount Amount::parse(const std::string& option, const std::string& text) {
  double count = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), count);
  std::string rest(end, text.data() + text.size());
  const auto bad = [&]() -> Amount {
    user_error("--{}: '{}' is not an amount such as 5000u (updates), 10e (epochs), 1Gt (target tokens) or 30min",
               option, text);
  };
  if (failed != std::errc() || count < 0 || !std::isfinite(count)) return bad();
  if (rest == "s") return {Unit::kSeconds, count};
  if (rest == "min") return {Unit::kSeconds, count * 60};
  if (rest == "h") return {Unit::kSeconds, count * 3600};
  for (const auto& [letter, factor] : {std::pair{'K', 1e3}, std::pair{'M', 1e6}, std::pair{'G', 1e9}})
    if (!rest.empty() && rest[0] == letter) {
      count *= factor;
      rest.erase(0, 1);
      break;
    }
  // 16.1 thousand are 16100, which 16.1 * 1000 is not in binary.
  if (const double near = std::round(count); std::fabs(count - near) <= 1e-12 * near) count = near;
  const bool whole = count == std::floor(count);
  if ((rest.empty() || rest == "u") && whole) return {Unit::kUpdates, count};
  if (rest == "e" && whole) return {Unit::kEpochs, count};
  if (rest == "t") return {Unit::kTokens, count};
  return bad();
}

std::vector<Amount> Amount::parse_list(const std::string& option, const std::string& text) {
  std::vector<Amount> amounts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    amounts.push_back(parse(option, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return amounts;
}

double Amount::measured(const TrainingProgress& p) const {
  switch (unit) {
    case Unit::kUpdates:
      return static_cast<double>(p.updates);
    case Unit::kEpochs:
      return static_cast<double>(p.epochs);
    case Unit::kTokens:
      return static_cast<double>(p.tokens);
    case Unit::kSeconds:
      return p.seconds;
  }
  return 0;
}

bool Amount::crossed(const TrainingProgress& before, const TrainingProgress& now) const {
  return count > 0 && std::floor(measured(now) / count) > std::floor(measured(before) / count);
}

}  // namespace nmt
