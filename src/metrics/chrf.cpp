#include "metrics/chrf.h"

#include "base/error.h"
#include "base/utf8.h"
#include "metrics/ngrams.h"
#include "metrics/unicode.h"
#include "text/lowercase.h"

namespace nmt {
namespace {

bool is_punctuation(char c) {  // ASCII
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Words for the word n-grams: one punctuation mark is split off, the last character before the first one.
std::vector<std::string_view> chrf_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (const auto word : metrics::split_at_spaces(text)) {
    const size_t cut = word.size() == 1 ? 0 : is_punctuation(word.back()) ? word.size() - 1 : is_punctuation(word[0]);
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

}  // namespace

void ChrfOptions::declare(Options& options) {
  options.group("chrF");
  options.add("char-order", char_order, "Longest character n-gram").range(0, 100);
  options.add("word-order", word_order, "Longest word n-gram; 2 gives chrF++").range(0, 100);
  options.add("beta", beta, "Weight of recall against precision").range(0, 1000);
  options.add("lowercase", lowercase, "Ignore case");
  options.add("whitespace", whitespace, "Count white space in character n-grams");
  options.add("eps-smoothing", eps_smoothing, "Smooth as chrF++.py, NLTK and Moses do, without effective order");
}

Chrf::Chrf(const ChrfOptions& options) : options_(options) {
  require(options.char_order >= 0 && options.word_order >= 0 && orders() > 0,
          "chrF needs --char-order or --word-order above 0");
}

void Chrf::sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                               std::span<double> statistics) const {
  std::vector<std::string> texts{std::string(hypothesis)};
  texts.insert(texts.end(), references.begin(), references.end());
  std::vector<metrics::Symbols> characters, words;
  metrics::WordNumbers number;
  for (auto& text : texts) {
    if (options_.lowercase) text = lowercase(text);
    auto& symbols = characters.emplace_back();
    for (const char32_t c : to_utf32(text))
      if (options_.whitespace || !metrics::is_space(c)) symbols.push_back(c);
    words.push_back(number(chrf_words(text)));
  }

  // of_reference[r] are the statistics against reference r
  std::vector<std::vector<double>> of_reference(references.size());
  const auto add = [&](const auto& counts) {
    uint64_t own = 0;
    for (const uint64_t count : counts[0]) own += count;
    for (size_t r = 0; r < references.size(); ++r) {
      uint64_t total = 0, matches = 0;
      for (size_t k = 0; k < counts[0].size(); ++k) {
        total += counts[r + 1][k];
        matches += std::min(counts[0][k], counts[r + 1][k]);
      }
      for (const uint64_t value : {total > 0 ? own : 0, total, matches})
        of_reference[r].push_back(static_cast<double>(value));
    }
  };
  metrics::count_ngrams(characters, options_.char_order, add);
  metrics::count_ngrams(words, options_.word_order, add);

  double best = -1;
  for (const auto& candidate : of_reference) {
    const double f = f_score(candidate);
    if (f <= best) continue;
    best = f;
    std::ranges::copy(candidate, statistics.begin());
  }
}

double Chrf::f_score(std::span<const double> statistics) const {
  constexpr double kEpsilon = 1e-16;
  const double factor = static_cast<double>(options_.beta) * options_.beta;
  double sum = 0, precisions = 0, recalls = 0;
  int effective = 0;
  for (int n = 0; n < orders(); ++n) {
    const double own = statistics[3 * n], reference = statistics[3 * n + 1], matches = statistics[3 * n + 2];
    const double precision = own > 0 ? matches / own : kEpsilon;
    const double recall = reference > 0 ? matches / reference : kEpsilon;
    const double denominator = factor * precision + recall;
    sum += denominator > 0 ? (1 + factor) * precision * recall / denominator : kEpsilon;
    if (own > 0 && reference > 0) {
      precisions += precision;
      recalls += recall;
      ++effective;
    }
  }
  if (options_.eps_smoothing) return 100 * sum / orders();
  if (effective == 0) return 0;
  precisions /= effective;
  recalls /= effective;
  if (precisions + recalls == 0) return 0;
  return 100 * ((1 + factor) * precisions * recalls / (factor * precisions + recalls));
}

Score Chrf::score(std::span<const double> statistics) const {
  return {.name = fmt::format("chrF{}{}", options_.beta, std::string(static_cast<size_t>(options_.word_order), '+')),
          .value = f_score(statistics)};
}

std::string Chrf::settings() const {
  return fmt::format("case:{}|eff:{}|nc:{}|nw:{}|space:{}", options_.lowercase ? "lc" : "mixed",
                     options_.eps_smoothing ? "no" : "yes", options_.char_order, options_.word_order,
                     options_.whitespace ? "yes" : "no");
}

}  // namespace nmt
