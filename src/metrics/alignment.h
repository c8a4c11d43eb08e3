#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/metric.h"

namespace nmt {

// A line of links between the words of a sentence and those of its translation, numbered from 0: `1-2` is a sure link
// of source word 1 and target word 2, `1?2` a possible one.
struct WordAlignment {
  using Link = std::pair<int32_t, int32_t>;  // source, target

  std::set<Link> sure, possible;  // the sure ones are possible, too

  // Throws UserError, which begins with `where` and the column, for what is no link, and for a possible one where they
  // are not allowed.
  static WordAlignment parse(std::string_view line, bool possible_allowed, const std::string& where);
};

// Alignment error rate (Och and Ney 2003) of links A against sure ones S and possible ones P, in percent: 1 - (|A and
// S| + |A and P|) / (|A| + |S|). Precision |A and P| / |A|, recall |A and S| / |S|; 0 where there is nothing to divide
// by. A line is a WordAlignment, with possible links in the reference alone; one reference.
class AlignmentErrorRate : public Metric {
 public:
  size_t statistics_size() const override { return 4; }  // |A|, |S|, |A and S|, |A and P|
  void sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                           std::span<double> statistics) const override;
  Score score(std::span<const double> statistics) const override;
  std::string settings() const override { return "links:sure+possible"; }
};

}  // namespace nmt
