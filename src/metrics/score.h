#pragma once

#include <optional>
#include <string>

namespace nmt {

// A corpus or sentence score, printed as sacreBLEU 2 prints it.
struct Score {
  struct Interval {
    double mean = 0, half_width = 0;  // of the resamples; 95 %
  };

  std::string name;         // "BLEU", "chrF2", "chrF2++", "TER", ...
  double value = 0;         // 0 to 100; TER can be more, and less is better there
  std::string details{};    // such as n-gram precisions, brevity penalty and lengths; chrF and TER have none
  std::string signature{};  // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:nmt-0.1.0"
  std::optional<Interval> interval{};
  std::optional<double> p_value{};  // against the baseline

  // "27.3", or "27.3 (μ = 27.3 ± 0.5)", then "(p = 0.0010)*" for a paired test (* : p is at most 0.05)
  std::string number(int width = 1) const;

  // "BLEU|SIGNATURE = 27.3 58.1/33.6/21.4/14.0 (BP = 1.000 ratio = 1.012 hyp_len = 62000 ref_len = 61287)";
  // width: decimals of the score
  std::string text(int width = 1) const;
};

}  // namespace nmt
