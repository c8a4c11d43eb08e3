#include <cmath>
#include <map>
#include <set>

#include "base/philox.h"
#include "metrics/bleu.h"
#include "metrics/ngrams.h"
#include "metrics/report.h"
#include "metrics/shifts.h"
#include "tests/catch.h"

using namespace nmt;
using metrics::edits_with_shifts;
using metrics::Symbols;

namespace {

Symbols random_symbols(Random& random, size_t length, uint64_t alphabet) {
  Symbols symbols(length);
  for (auto& s : symbols) s = static_cast<uint32_t>(random.below(alphabet));
  return symbols;
}

size_t levenshtein(const Symbols& a, const Symbols& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t best = std::min({diagonal + (a[i - 1] != b[j - 1]), row[j] + 1, row[j - 1] + 1});
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row.back();
}

}  // namespace

TEST_CASE("n-grams are counted as a map counts them") {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Symbols> sequences;
    for (int s = 0; s < 3; ++s) sequences.push_back(random_symbols(random, random.below(12), 3));
    sequences[0].push_back(0xFFFFFFFF);
    size_t order = 0;
    metrics::count_ngrams(sequences, 5, [&](const auto& counts) {
      ++order;
      std::map<Symbols, std::vector<uint32_t>> expected;
      for (size_t s = 0; s < sequences.size(); ++s)
        for (size_t i = 0; i + order <= sequences[s].size(); ++i) {
          auto& row = expected[Symbols(sequences[s].begin() + i, sequences[s].begin() + i + order)];
          row.resize(sequences.size());
          ++row[s];
        }
      REQUIRE(counts[0].size() == expected.size());
      std::multiset<std::vector<uint32_t>> rows, wanted;
      for (const auto& [gram, row] : expected) wanted.insert(row);
      for (size_t k = 0; k < counts[0].size(); ++k) rows.insert({counts[0][k], counts[1][k], counts[2][k]});
      CHECK(rows == wanted);
    });
    CHECK(order == 5);
  }
}

TEST_CASE("shifts: one edit for each block that moves") {
  const Symbols sorted = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK(edits_with_shifts(sorted, sorted) == 0);
  CHECK(edits_with_shifts({5, 6, 7, 8, 1, 2, 3, 4}, sorted) == 1);
  CHECK(edits_with_shifts({2, 3, 4, 1, 5, 6, 7, 8}, sorted) == 1);
  CHECK(edits_with_shifts({8, 2, 3, 4, 5, 6, 7, 1}, sorted) == 2);
  CHECK(edits_with_shifts({5, 6, 7, 8, 1, 2, 9, 4}, sorted) == 2);
  CHECK(edits_with_shifts({}, sorted) == 8);
  CHECK(edits_with_shifts(sorted, {}) == 8);
  CHECK(edits_with_shifts({}, {}) == 0);
}

TEST_CASE("shifts: never worse than the plain edit distance, never better than the words that are missing") {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const auto a = random_symbols(random, 1 + random.below(20), 8), b = random_symbols(random, 1 + random.below(20), 8);
    const size_t edits = edits_with_shifts(a, b);
    CHECK(edits <= levenshtein(a, b));
    const size_t least = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
    CHECK(edits >= least);
  }
}

TEST_CASE("shifts: lengths far apart stay inside the band") {
  Random random(3);
  for (const auto& [rows, columns] : std::vector<std::pair<size_t, size_t>>{{1, 400}, {400, 1}, {3, 1000}, {500, 90}}) {
    const auto a = random_symbols(random, rows, 50), b = random_symbols(random, columns, 50);
    CHECK(edits_with_shifts(a, b) >= std::max(rows, columns) - std::min(rows, columns));
    CHECK(edits_with_shifts(a, b) <= std::max(rows, columns));
  }
}

TEST_CASE("bootstrap: the same seed draws the same lines") {
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> references(1);
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    hypotheses.emplace_back("a b c d e f");
    references[0].emplace_back(random.below(3) == 0 ? "a b x d e f" : "a b c d e f");
  }
  const Bleu bleu({});
  const CorpusStatistics statistics(bleu, hypotheses, references);
  const auto scores = statistics.bootstrap(400, 12345);
  CHECK(scores == statistics.bootstrap(400, 12345));
  CHECK(scores != statistics.bootstrap(400, 12346));
  CHECK(statistics.signature(400, 12345).starts_with("nrefs:1|bs:400|seed:12345|case:mixed|"));

  const auto interval = confidence_interval(scores);
  CHECK(interval.mean == Approx(statistics.score().value).margin(interval.half_width / 4));
  CHECK(interval.half_width > 0);
  const auto inside =
      std::ranges::count_if(scores, [&](double s) { return std::abs(s - interval.mean) <= 1.2 * interval.half_width; });
  CHECK(inside > 360);

  CHECK(confidence_interval({3}).mean == 3);
  CHECK(confidence_interval({3}).half_width == 0);
  std::vector<double> hundred(100);
  for (size_t i = 0; i < hundred.size(); ++i) hundred[i] = static_cast<double>(i);
  CHECK(confidence_interval(hundred).half_width == Approx((97 - 2) / 2.0));  // 100 / 40 lowest and highest left out
}

TEST_CASE("paired test: p-values") {
  const std::vector<double> same(99, 20.0);
  CHECK(paired_p_value(same, same, 20, 20) == 1);  // sacreBLEU's answer is 1/100: no trial's difference is above 0
  std::vector<double> other(99, 21.0);
  other[0] = 25;  // differences 1, but for one 5: their mean is 103/99
  CHECK(paired_p_value(same, other, 20, 21) == Approx(2.0 / 100));
  CHECK(paired_p_value(same, other, 20, 24) == Approx(1.0 / 100));
  CHECK(paired_p_value(std::vector{20.0, 20.0}, std::vector{20.0, 22.0}, 20, 21) == Approx(1.0 / 3));  // 1 is not above
  CHECK_THROWS(paired_p_value(same, std::vector<double>{1.0}, 1, 1));
}

TEST_CASE("reports") {
  Score score{.name = "BLEU", .value = 27.345};
  score.signature = "nrefs:1|case:mixed";
  score.details = "60.0/30.0/20.0/10.0";
  CHECK(score.text() == "BLEU|nrefs:1|case:mixed = 27.3 60.0/30.0/20.0/10.0");
  CHECK(json_report(score, 2) ==
        "{\n \"name\": \"BLEU\",\n \"score\": 27.34,\n \"signature\": \"nrefs:1|case:mixed\",\n \"verbose_score\": "
        "\"60.0/30.0/20.0/10.0\",\n \"nrefs\": \"1\",\n \"case\": \"mixed\"\n}\n");
  CHECK(json_report(std::span(&score, 1), {}, 2).starts_with("[\n {\n  \"name\": \"BLEU\","));
  std::vector<Score> scores(2, score);
  scores[1].p_value = 0.012;
  scores[1].interval = Score::Interval{27.3, 0.52};
  const std::vector<std::string> names = {"a", "long name"};
  CHECK(paired_report(scores, names, 1) ==
        "BLEU|nrefs:1|case:mixed\nBaseline: a  27.3\nlong name    27.3 (μ = 27.3 ± 0.5) (p = 0.0120)*\n");
  scores[1].p_value = 0.06;
  CHECK(scores[1].number() == "27.3 (μ = 27.3 ± 0.5) (p = 0.0600)");
  const auto array = json_report(scores, names, 1);
  CHECK(array.starts_with("[\n {\n  \"system\": \"a\","));
  CHECK(array.find("\"p_value\": 0.06") != std::string::npos);
  CHECK(array.find("\"confidence_var\": 0.5") != std::string::npos);
}
