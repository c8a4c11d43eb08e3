#include "metrics/alignment.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/math.h"
#include "text/split_words.h"

namespace nmt {
namespace {

constexpr int32_t kMaxWords = 1'000'000;  // of a sentence

// The number of a word at the start of the text, which is taken away; -1: there is none.
int32_t take_number(std::string_view& text) {
  int32_t number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.starts_with('-') || failed != std::errc() || number >= kMaxWords) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

WordAlignment WordAlignment::parse(std::string_view line, bool possible_allowed, const std::string& where) {
  WordAlignment alignment;
  for (const std::string_view word : split_words(line)) {
    const auto column = word.data() - line.data() + 1;
    std::string_view rest = word;
    const int32_t source = take_number(rest);
    const char mark = rest.empty() ? '\0' : rest[0];
    if (!rest.empty()) rest.remove_prefix(1);
    const int32_t target = take_number(rest);
    const bool whole = source >= 0 && target >= 0 && rest.empty();
    require(whole && (mark == '-' || mark == '?'),
            "{}{}: '{}' is no link; links are SOURCE-TARGET, numbers of words from 0, as 0-1{}", where, column, word,
            possible_allowed ? ", or 0?1 where they are possible, not sure" : "");
    require(mark == '-' || possible_allowed, "{}{}: '{}' is a possible link, which only a reference has; write {}-{}",
            where, column, word, source, target);
    alignment.possible.emplace(source, target);
    if (mark == '-') alignment.sure.emplace(source, target);
  }
  return alignment;
}

void AlignmentErrorRate::sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                                             std::span<double> statistics) const {
  require(references.size() == 1, "alignments are scored against one reference, not {}", references.size());
  const auto links = WordAlignment::parse(hypothesis, false, "column ").sure;
  const auto gold = WordAlignment::parse(references[0], true, "the reference's column ");
  const auto common = [&](const std::set<WordAlignment::Link>& others) {
    return static_cast<double>(std::ranges::count_if(links, [&](const auto& link) { return others.contains(link); }));
  };
  statistics[0] = static_cast<double>(links.size());
  statistics[1] = static_cast<double>(gold.sure.size());
  statistics[2] = common(gold.sure);
  statistics[3] = common(gold.possible);
}

Score AlignmentErrorRate::score(std::span<const double> statistics) const {
  const double links = statistics[0], sure = statistics[1], right = statistics[2], allowed = statistics[3];
  return {.name = "AER",
          .value = links + sure > 0 ? 100 - percent(right + allowed, links + sure) : 0,
          .details = fmt::format("(precision = {:.1f} recall = {:.1f} links = {:.0f} sure = {:.0f})",
                                 percent(allowed, links), percent(right, sure), links, sure)};
}

}  // namespace nmt
