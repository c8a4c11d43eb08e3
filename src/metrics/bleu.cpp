#include "metrics/bleu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "metrics/moses.h"
#include "metrics/ngrams.h"
#include "metrics/tokenize.h"
#include "metrics/unicode.h"
#include "text/lowercase.h"

namespace nmt {
namespace {

constexpr double kFloorDefault = 0.1, kAddDefault = 1;

constexpr const char *kNoTokeniser = "none", *kMoses = "moses";

struct Tokeniser {
  std::string_view name;
  std::string (*tokenize)(std::string_view);
  bool splits_words;
};
constexpr Tokeniser kTokenisers[] = {{"13a", metrics::tokenize_13a, true},
                                     {"intl", metrics::tokenize_international, true},
                                     {"zh", metrics::tokenize_chinese, true},
                                     {"char", metrics::tokenize_characters, false}};

const Tokeniser* find_tokeniser(std::string_view name) {
  const auto found = std::ranges::find(kTokenisers, name, &Tokeniser::name);
  return found == std::end(kTokenisers) ? nullptr : found;
}

bool takes_value(const std::string& smooth_method) { return smooth_method == "floor" || smooth_method == "add-k"; }

// sacreBLEU's logarithm: of nothing a number so low that the score becomes 0.
double floored_log(double x) { return x == 0 ? -9999999999.0 : std::log(x); }

}  // namespace

void BleuOptions::declare(Options& options) {
  options.group("BLEU");
  std::vector<std::string> names;
  for (const Tokeniser& known : kTokenisers) names.emplace_back(known.name);
  names.insert(names.end(), {kNoTokeniser, kMoses});
  options.add("tokenize", tokenize, "Tokeniser; zh: for Chinese; moses needs --language").choices(names);
  options.add("language", language, "Language of the Moses tokeniser").choices({"en", "de", "fr"});
  options.add("compound-split", compound_split, "Score a-b as a ##AT##-##AT## b, as papers on WMT14 English-German do");
  options.add("lowercase", lowercase, "Ignore case");
  options.add("smooth-method", smooth_method, "What an order without matches counts")
      .choices({"exp", "floor", "add-k", "none"});
  options.add("smooth-value", smooth_value, "Value of floor and add-k; -1: 0.1 for floor, 1 for add-k").range(-1, 1e6);
  options.add("effective-order", effective_order, "Leave out orders without n-grams (always with --sentence)");
}

bool BleuOptions::splits_words() const {
  const Tokeniser* known = find_tokeniser(tokenize);
  return known != nullptr && known->splits_words;
}

Bleu::Bleu(const BleuOptions& options) : options_(options) {
  auto& o = options_;
  require(o.language.empty() || o.tokenize == kMoses, "--language {} works with --tokenize moses only", o.language);
  require(o.smooth_value >= 0 || o.smooth_value == -1, "--smooth-value: {} is negative", o.smooth_value);
  require(o.smooth_value < 0 || takes_value(o.smooth_method),
          "--smooth-value works with --smooth-method floor or add-k, not with {}", o.smooth_method);
  if (o.smooth_value < 0) o.smooth_value = o.smooth_method == "floor" ? kFloorDefault : kAddDefault;
  if (const Tokeniser* known = find_tokeniser(o.tokenize))
    tokenize_ = known->tokenize;
  else if (o.tokenize == kMoses)
    tokenize_ = metrics::MosesTokenizer(o.language);
  else
    require(o.tokenize == kNoTokeniser, "unknown tokeniser '{}'", o.tokenize);
  require(takes_value(o.smooth_method) || o.smooth_method == "exp" || o.smooth_method == "none",
          "unknown smoothing '{}'", o.smooth_method);
}

std::string Bleu::prepare(std::string_view line) const {
  // The Moses tokeniser looks at the case, so there lower case comes after it, as in multi-bleu.perl -lc.
  const bool moses = options_.tokenize == kMoses;
  std::string text(line);
  if (options_.lowercase && !moses) text = lowercase(text);
  text.resize(metrics::strip_right(text).size());
  if (tokenize_) text = tokenize_(text);
  if (options_.lowercase && moses) text = lowercase(text);
  return options_.compound_split ? metrics::split_compounds(text) : text;
}

void Bleu::sentence_statistics(std::string_view hypothesis, std::span<const std::string_view> references,
                               std::span<double> statistics) const {
  metrics::WordNumbers number;
  std::vector<std::string> texts{prepare(hypothesis)};
  for (const auto reference : references) texts.push_back(prepare(reference));
  std::vector<metrics::Symbols> sequences;
  for (const auto& text : texts) sequences.push_back(number(metrics::split_at_spaces(text)));

  const auto length = static_cast<int64_t>(sequences[0].size());
  int64_t closest = static_cast<int64_t>(sequences[1].size());
  for (size_t r = 2; r < sequences.size(); ++r) {
    const auto other = static_cast<int64_t>(sequences[r].size());
    const auto gain = std::abs(length - closest) - std::abs(length - other);
    if (gain > 0 || (gain == 0 && other < closest)) closest = other;
  }
  statistics[0] = static_cast<double>(length);
  statistics[1] = static_cast<double>(closest);

  size_t order = 0;
  metrics::count_ngrams(sequences, kOrders, [&](const auto& counts) {
    uint64_t matches = 0, total = 0;
    for (size_t k = 0; k < counts[0].size(); ++k) {
      uint32_t most = 0;
      for (size_t r = 1; r < counts.size(); ++r) most = std::max(most, counts[r][k]);
      matches += std::min(counts[0][k], most);
      total += counts[0][k];
    }
    statistics[2 + order] = static_cast<double>(matches);
    statistics[2 + kOrders + order] = static_cast<double>(total);
    ++order;
  });
}

Score Bleu::score(std::span<const double> statistics) const {
  const double length = statistics[0], reference = statistics[1];
  double penalty = 1;
  if (length < reference) penalty = length > 0 ? std::exp(1 - reference / length) : 0;

  std::array<double, kOrders> precisions{};
  const auto matched = statistics.subspan(2, kOrders), totals = statistics.subspan(2 + kOrders, kOrders);
  double value = 0;
  if (std::ranges::any_of(matched, [](double m) { return m > 0; })) {
    int orders = kOrders;
    double halves = 1;
    for (int n = 0; n < kOrders; ++n) {
      double matches = matched[n], total = totals[n];
      if (options_.smooth_method == "add-k" && n > 0) {
        matches += options_.smooth_value;
        total += options_.smooth_value;
      }
      if (total == 0) break;
      if (options_.effective_order) orders = n + 1;
      if (matches > 0)
        precisions[n] = 100 * matches / total;
      else if (options_.smooth_method == "exp")
        precisions[n] = 100 / ((halves *= 2) * total);
      else if (options_.smooth_method == "floor")
        precisions[n] = 100 * options_.smooth_value / total;
    }
    double logs = 0;
    for (int n = 0; n < orders; ++n) logs += floored_log(precisions[n]);
    value = penalty * std::exp(logs / orders);
  }

  Score score{.name = "BLEU", .value = value};
  score.details = fmt::format(
      "{:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {:.0f} ref_len = {:.0f})", precisions[0],
      precisions[1], precisions[2], precisions[3], penalty, reference > 0 ? length / reference : 0, length, reference);
  return score;
}

std::string Bleu::settings() const {
  std::string tokenizer = options_.tokenize;
  if (tokenizer == kMoses) tokenizer += "-" + options_.language;
  if (options_.compound_split) tokenizer += "|compound:split";
  std::string smoothing = options_.smooth_method;
  if (takes_value(smoothing)) smoothing += fmt::format("[{:.2f}]", options_.smooth_value);
  return fmt::format("case:{}|eff:{}|tok:{}|smooth:{}", options_.lowercase ? "lc" : "mixed",
                     options_.effective_order ? "yes" : "no", tokenizer, smoothing);
}

}  // namespace nmt
