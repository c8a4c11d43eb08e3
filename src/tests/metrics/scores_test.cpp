#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/line_reader.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "metrics/report.h"
#include "metrics/ter.h"
#include "tests/catch.h"

using namespace nmt;

namespace {

using Lines = std::vector<std::string>;

const Lines kHypotheses = {"The cat sat on the mat .", "Green ideas sleep, he said: 3,000 of them!", "", "one",
                           "b a c d e f g"};
const std::vector<Lines> kReferences = {
    {"The cat is on the mat.", "Colourless green ideas sleep furiously, she said: 3,000 of them.", "nothing here",
     "one", "a b c d e f g h"},
    {"A cat sat on a mat.", "Green ideas were asleep, he said - 3,000!", "", "two words", "e f g a b c d"}};
const std::span<const Lines> kOne = std::span(kReferences).first(1), kTwo = kReferences;

// The line without the version, which is nmt's own.
std::string line(const Score& score) {
  std::string text = score.text(4);
  const size_t start = text.find("|version:nmt-"), end = text.find(' ', start);
  REQUIRE(start != std::string::npos);
  return text.erase(start, end - start);
}

}  // namespace

// The expected lines of the next three tests were printed by sacreBLEU 2.6.0.
TEST_CASE("BLEU") {
  const auto one = [](const BleuOptions& o) { return line(corpus_score(Bleu(o), kHypotheses, kOne)); };
  const auto two = [](const BleuOptions& o) { return line(corpus_score(Bleu(o), kHypotheses, kTwo)); };
  CHECK(one({}) ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp = 41.7851 84.6/59.1/42.1/31.2 (BP = 0.825 ratio = 0.839 "
        "hyp_len = 26 ref_len = 31)");
  CHECK(one({.tokenize = "none"}) ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:none|smooth:exp = 27.3785 69.6/42.1/25.0/15.4 (BP = 0.840 ratio = 0.852 "
        "hyp_len = 23 ref_len = 27)");
  CHECK(one({.tokenize = "char"}) ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:char|smooth:exp = 49.8251 93.7/83.1/78.2/72.5 (BP = 0.611 ratio = 0.670 "
        "hyp_len = 63 ref_len = 94)");
  CHECK(one({.lowercase = true}) ==
        "BLEU|nrefs:1|case:lc|eff:no|tok:13a|smooth:exp = 44.3283 88.5/63.6/47.4/31.2 (BP = 0.825 ratio = 0.839 "
        "hyp_len = 26 ref_len = 31)");
  CHECK(one({.smooth_method = "add-k", .smooth_value = 0.5}) ==
        "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:add-k[0.50] = 42.9979 84.6/60.0/43.6/33.3 (BP = 0.825 ratio = "
        "0.839 hyp_len = 26 ref_len = 31)");
  CHECK(two({.tokenize = "intl"}) ==
        "BLEU|nrefs:2|case:mixed|eff:no|tok:intl|smooth:exp = 59.9761 96.2/81.8/52.6/31.2 (BP = 1.000 ratio = 1.083 "
        "hyp_len = 26 ref_len = 24)");
  CHECK(two({.smooth_method = "floor"}) ==
        "BLEU|nrefs:2|case:mixed|eff:no|tok:13a|smooth:floor[0.10] = 60.5671 100.0/81.8/52.6/31.2 (BP = 1.000 ratio = "
        "1.040 hyp_len = 26 ref_len = 25)");
}

TEST_CASE("chrF and chrF++") {
  CHECK(line(corpus_score(Chrf({}), kHypotheses, kOne)) ==
        "chrF2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no = 53.1092");
  CHECK(line(corpus_score(Chrf({.word_order = 2}), kHypotheses, kOne)) ==
        "chrF2++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no = 55.5389");
  CHECK(line(corpus_score(Chrf({.char_order = 4, .beta = 1, .lowercase = true}), kHypotheses, kTwo)) ==
        "chrF1|nrefs:2|case:lc|eff:yes|nc:4|nw:0|space:no = 66.4460");
  CHECK(line(corpus_score(Chrf({.whitespace = true}), kHypotheses, kTwo)) ==
        "chrF2|nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:yes = 60.4817");
  CHECK(line(corpus_score(Chrf({.eps_smoothing = true}), kHypotheses, kTwo)) ==
        "chrF2|nrefs:2|case:mixed|eff:no|nc:6|nw:0|space:no = 62.2813");
  CHECK_THROWS_AS(Chrf({.char_order = 0}), UserError);
}

TEST_CASE("TER") {
  const auto options = [](metrics::TercomOptions o) {
    TerOptions options;
    static_cast<metrics::TercomOptions&>(options) = o;
    return options;
  };
  CHECK(line(corpus_score(Ter({}), kHypotheses, kOne)) ==
        "TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no = 44.4444");
  CHECK(line(corpus_score(Ter(options({.normalized = true})), kHypotheses, kTwo)) ==
        "TER|nrefs:2|case:lc|tok:tercom|norm:yes|punct:yes|asian:no = 24.5614");
  CHECK(line(corpus_score(Ter(options({.no_punct = true, .case_sensitive = true})), kHypotheses, kTwo)) ==
        "TER|nrefs:2|case:mixed|tok:tercom|norm:no|punct:no|asian:no = 28.0000");
  const Lines empty = {""}, word = {"word"};
  const auto ter = [](const Lines& a, const Lines& b) { return corpus_score(Ter({}), a, std::span(&b, 1)).value; };
  CHECK(ter(empty, empty) == 0);
  CHECK(ter(word, empty) == 100);
  CHECK(ter(empty, word) == 100);
}

TEST_CASE("sentence BLEU takes the effective order and the nearest reference") {
  const Bleu bleu({.effective_order = true});
  const CorpusStatistics statistics(bleu, kHypotheses, kTwo);
  const std::vector<double> expected = {62.23, 54.60, 0, 100, 66.87};
  REQUIRE(statistics.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(statistics.sentence_score(i).value == Approx(expected[i]).epsilon(1e-4));
  CHECK(statistics.sentence_score(2).details == "0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 0 ref_len = 0)");
}

TEST_CASE("BLEU by hand: clipping, brevity, smoothing of an order without matches") {
  const auto bleu = [](const std::string& hypothesis, const std::string& reference, const BleuOptions& options) {
    const Lines h = {hypothesis}, r = {reference};
    return corpus_score(Bleu(options), h, std::span(&r, 1)).value;
  };
  // Papineni et al., example 2: seven times "the" matches twice.
  CHECK(bleu("the the the the the the the", "the cat is on the mat", {}) ==
        Approx(100 * std::pow(2.0 / 7 * (1 / (2 * 6.0)) * (1 / (4 * 5.0)) * (1 / (8 * 4.0)), 0.25)));
  CHECK(bleu("a b c d", "a b c d e f", {}) == Approx(100 * std::exp(1 - 6.0 / 4)));
  CHECK(bleu("a b c", "a b c", {}) == 0);  // no 4-gram at all
  CHECK(bleu("a b c", "a b c", {.effective_order = true}) == Approx(100));
  CHECK(bleu("a x c y", "a b c d", {.smooth_method = "none"}) == 0);
  CHECK(bleu("x y", "a b", {.smooth_method = "floor"}) == 0);  // no match: 0, however it is smoothed
  // Moses splits before a capital, which is there until then.
  CHECK(bleu("Then he said. And they left at once", "Then he said . And they left at once",
             {.tokenize = "moses", .language = "en", .lowercase = true}) == Approx(100));
  CHECK(bleu("rich-text format", "rich - text format", {.tokenize = "none", .compound_split = true}) <
        bleu("rich-text format", "rich-text format", {.tokenize = "none", .compound_split = true}));
}

TEST_CASE("the Moses tokeniser and compounds in BLEU") {
  const BleuOptions options{.tokenize = "moses", .language = "de", .lowercase = true};
  const Lines hypothesis = {"Die E-Mail-Liste kam am 3. Mai."};
  const std::vector<Lines> reference = {{"Die E-Mail-Liste kam am 3. mai ."}};
  CHECK(line(corpus_score(Bleu(options), hypothesis, reference)) ==
        "BLEU|nrefs:1|case:lc|eff:no|tok:moses-de|smooth:exp = 100.0000 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = "
        "1.000 "
        "hyp_len = 7 ref_len = 7)");
  auto split = options;
  split.compound_split = true;  // E - Mail-Liste: the hyphens are further apart than one letter
  CHECK(line(corpus_score(Bleu(split), hypothesis, reference)) ==
        "BLEU|nrefs:1|case:lc|eff:no|tok:moses-de|compound:split|smooth:exp = 100.0000 100.0/100.0/100.0/100.0 (BP = "
        "1.000 "
        "ratio = 1.000 hyp_len = 11 ref_len = 11)");
}

TEST_CASE("contradicting options and corpora are refused") {
  CHECK_THROWS_AS(Bleu({.tokenize = "moses"}), UserError);
  CHECK_THROWS_AS(Bleu({.language = "de"}), UserError);
  CHECK_THROWS_AS(Bleu({.tokenize = "13b"}), UserError);
  CHECK_THROWS_AS(Bleu({.smooth_method = "some"}), UserError);
  CHECK_THROWS_AS(Bleu({.smooth_value = 0.5}), UserError);
  CHECK_THROWS_AS(corpus_score(Bleu({}), kHypotheses, std::span<const Lines>()), UserError);
  CHECK_THROWS_AS(corpus_score(Bleu({}), Lines(), std::vector<Lines>{{}}), UserError);
  CHECK_THROWS_AS(corpus_score(Ter({}), kHypotheses, std::vector<Lines>{{"one line"}}), UserError);
}

TEST_CASE("the WMT17 systems have the figures that sacreBLEU's tests expect") {
  const char* data = std::getenv("NMT_DATA");
  if (data == nullptr || !std::filesystem::exists(std::string(data) + "/sacrebleu/expected.tsv")) {
    WARN("SKIPPED: the WMT17 systems: set NMT_DATA to the folder that has sacrebleu/expected.tsv");
    return;
  }
  const std::string folder = std::string(data) + "/sacrebleu/";
  const std::vector<Lines> references = {read_lines(folder + "reference.de")};
  const auto table = read_lines(folder + "expected.tsv");
  REQUIRE(table.size() == 9);
  for (size_t row = 1; row < table.size(); ++row) {
    Lines cells(5);
    std::stringstream fields(table[row]);
    for (auto& cell : cells) std::getline(fields, cell, '\t');
    INFO(cells[0]);
    const auto hypotheses = read_lines(folder + cells[0] + ".txt");
    CHECK(fmt::format("{:.2f}", corpus_score(Bleu({}), hypotheses, references).value) ==
          fmt::format("{:.2f}", std::stod(cells[1])));
    if (!cells[2].empty())
      CHECK(fmt::format("{:.4f}", corpus_score(Chrf({}), hypotheses, references).value) == cells[2]);
    if (!cells[3].empty()) {  // the column is chrF++.py's figure, so epsilon smoothing
      const ChrfOptions options{.word_order = 2, .eps_smoothing = true};
      CHECK(fmt::format("{:.4f}", corpus_score(Chrf(options), hypotheses, references).value) == cells[3]);
    }
    if (!cells[4].empty())
      CHECK(fmt::format("{:.3f}", corpus_score(Ter({}), hypotheses, references).value / 100) == cells[4]);
  }
}
