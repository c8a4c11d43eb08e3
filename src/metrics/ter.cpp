#include "metrics/ter.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "metrics/ngrams.h"
#include "metrics/shifts.h"
#include "metrics/unicode.h"

namespace nmt {

void TerOptions::declare(Options& options) {
  options.group("TER");
  options.add("normalized", normalized, "Decode entities and split punctuation, as tercom -N does");
  options.add("no-punct", no_punct, "Drop punctuation");
  options.add("asian-support", asian_support,
              "Let --normalized and --no-punct know CJK text (alone it changes nothing)");
  options.add("case-sensitive", case_sensitive, "Mind the case");
}

void Ter::sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                              std::span<double> statistics) const {
  metrics::WordNumbers number;
  std::vector<std::string> texts;  // kept, for the numbers refer to them
  texts.reserve(2 * references.size() + 1);
  const auto prepare = [&](std::string_view line) -> std::string_view {
    return texts.emplace_back(metrics::tokenize_tercom(metrics::strip_right(line), options_));
  };
  const auto own = number(metrics::split_at_spaces(prepare(hypothesis)));
  size_t edits = std::numeric_limits<size_t>::max(), lengths = 0;
  for (const auto reference : references) {
    // sacreBLEU prepares references twice, which shows where the first time makes new entities or words in 's.
    const auto other = number(metrics::split_at_spaces(prepare(prepare(reference))));
    edits = std::min(edits, metrics::edits_with_shifts(own, other));
    lengths += other.size();
  }
  statistics[0] = static_cast<double>(edits);
  statistics[1] = static_cast<double>(lengths) / static_cast<double>(references.size());
}

Score Ter::score(std::span<const double> statistics) const {
  const double edits = statistics[0], length = statistics[1];
  return {.name = "TER", .value = 100 * (length > 0 ? edits / length : edits > 0 ? 1 : 0)};
}

std::string Ter::settings() const {
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  return fmt::format("case:{}|tok:tercom|norm:{}|punct:{}|asian:{}", options_.case_sensitive ? "mixed" : "lc",
                     yes(options_.normalized), yes(!options_.no_punct), yes(options_.asian_support));
}

}  // namespace nmt
