#pragma once

#include <functional>

#include "config/options.h"
#include "metrics/metric.h"

namespace nmt {

struct BleuOptions {
  std::string tokenize = "13a";       // 13a, intl, zh, char, none or moses
  std::string language{};             // of the Moses tokeniser: en, de or fr
  bool compound_split = false;        // a-b scored as a ##AT##-##AT## b
  bool lowercase = false;             // case-insensitive
  std::string smooth_method = "exp";  // exp, floor, add-k or none (Chen and Cherry 2014)
  double smooth_value = -1;           // of floor and add-k; -1: 0.1 and 1
  bool effective_order = false;       // leave out the orders that the hypothesis is too short for (sentence scores)

  void declare(Options& options);  // of the subcommand
  bool splits_words() const;       // into tokens by rules of its own: text that is tokenised already gives other ones
};

// BLEU-4 (Papineni et al. 2002) with the figures of sacreBLEU 2 (Post 2018).
class Bleu : public Metric {
 public:
  explicit Bleu(const BleuOptions& options);  // throws UserError for options that contradict each other

  // Hypothesis length, length of the closest reference, matches of the orders 1 to 4, n-grams of the orders 1 to 4.
  size_t statistics_size() const override { return 2 + 2 * kOrders; }
  void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                           std::span<double> statistics) const override;
  Score score(std::span<const double> statistics) const override;
  std::string settings() const override;

 private:
  static constexpr int kOrders = 4;
  std::string prepare(std::string_view line) const;

  BleuOptions options_;
  std::function<std::string(std::string_view)> tokenize_;
};

}  // namespace nmt
