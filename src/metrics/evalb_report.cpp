#include <fmt/format.h>

#include "metrics/brackets.h"

namespace nmt {
namespace {

std::string summary(const std::string& name, const BracketSums& s) {
  std::string text = fmt::format("\n-- {} --\n", name);
  const auto count = [&](const char* what, double value) { text += fmt::format("{:<26}= {:6.0f}\n", what, value); };
  const auto figure = [&](const char* what, double value) { text += fmt::format("{:<26}= {:6.2f}\n", what, value); };
  count("Number of sentence", s.sentences);
  count("Number of Error sentence", s.errors);
  count("Number of Skip  sentence", s.skipped);
  count("Number of Valid sentence", s.valid());
  figure("Bracketing Recall", s.recall());
  figure("Bracketing Precision", s.precision());
  figure("Bracketing FMeasure", s.f1());
  figure("Complete match", s.complete_match());
  figure("Average crossing", s.average_crossing());
  figure("No crossing", s.without_crossing());
  figure("2 or less crossing", s.with_few_crossings());
  figure("Tagging accuracy", s.tagging_accuracy());
  return text;
}

}  // namespace

std::string evalb_report(std::span<const SentenceBrackets> sentences, int cutoff) {
  const std::string rule(76, '=');
  std::string text =
      "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
      " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" +
      rule + "\n";
  BracketSums all, up_to_cutoff;
  int64_t number = 0;
  for (const auto& s : sentences) {
    BracketSums own;
    own.add(s);
    all.add(s);
    if (s.length <= cutoff) up_to_cutoff.add(s);
    text += fmt::format("{:4}  {:3}    {}  {:6.2f} {:6.2f}   {:3}    {:3}  {:3}    {:3}   {:4}  {:4}   {:6.2f}\n",
                        ++number, s.length, static_cast<int>(s.status), own.recall(), own.precision(), s.matched,
                        s.gold, s.test, s.crossing, s.words, s.tags, own.tagging_accuracy());
  }
  text += rule + "\n";
  if (all.gold > 0 && all.test > 0)
    text += fmt::format("                {:6.2f} {:6.2f} {:6.0f} {:5.0f} {:5.0f}  {:5.0f}", all.recall(),
                        all.precision(), all.matched, all.gold, all.test, all.crossing);
  text += fmt::format("  {:5.0f} {:5.0f}   {:6.2f}\n=== Summary ===\n", all.words, all.tags, all.tagging_accuracy());
  return text + summary("All", all) + summary(fmt::format("len<={}", cutoff), up_to_cutoff);
}

}  // namespace nmt
