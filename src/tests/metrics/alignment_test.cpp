#include "metrics/alignment.h"

#include "base/error.h"
#include "tests/catch.h"
#include "tests/complaint.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

Score scored(const std::vector<std::string>& links, const std::vector<std::string>& gold) {
  return CorpusStatistics(AlignmentErrorRate(), links, std::vector<std::vector<std::string>>{gold}).score();
}

std::string error_rate(const std::vector<std::string>& links, const std::vector<std::string>& gold) {
  return scored(links, gold).number(2);
}

std::string parse_error(const std::string& line, bool possible_allowed) {
  return complaint_of([&] { WordAlignment::parse(line, possible_allowed, "gold:7:"); });
}

}  // namespace

TEST_CASE("alignment error rate is that of Och and Ney 2003") {
  // By hand: A = 4, S = 3, A and S = 2, A and P = 3: 1 - 5 / 7; precision 3 / 4, recall 2 / 3.
  const Score score = scored({"0-0 1-1 2-1 3-3"}, {"0-0 1-1 2-2 2?1"});
  CHECK(score.value == Approx(100 * (1 - 5.0 / 7)));
  CHECK(score.details == "(precision = 75.0 recall = 66.7 links = 4 sure = 3)");
  CHECK(error_rate({"0-0 1-1"}, {"1-1 0-0"}) == "0.00");
  CHECK(error_rate({"0-0"}, {"1-1"}) == "100.00");
  CHECK(error_rate({"0-0 0-0"}, {"0-0 0?0"}) == "0.00");      // links are a set, and sure before possible
  CHECK(error_rate({"0-0 1-0"}, {"0-0 1?0 2?0"}) == "0.00");  // what is possible need not be there
  CHECK(error_rate({""}, {""}) == "0.00");
  CHECK(error_rate({""}, {"0-0"}) == "100.00");
  CHECK(error_rate({"", "0-0"}, {"0-0", "0-0"}) == "33.33");  // sums over sentences: 1 - 2 / 3
  CHECK(error_rate({"0-1"}, {"1-0"}) == "100.00");            // source first
}

TEST_CASE("what is no link is refused with its column") {
  CHECK(parse_error(" 0-0\t12-3 4?5 ", true).empty());
  CHECK(parse_error("0-0 4?5", false) == "gold:7:5: '4?5' is a possible link, which only a reference has; write 4-5");
  for (const std::string bad : {"x",    "1",    "1-",  "-1",   "1-2-3", "1--2",      "-1-2",
                                "-0-1", "0--0", "1_2", "1-2S", "1.5-2", "1-1000000", "99999999999-1",
                                "\xff", "1?",   "?",   "-",    "+1-2",  "0x1-2"}) {
    INFO(bad);
    CHECK(parse_error("0-0 " + bad, true) ==
          "gold:7:5: '" + bad +
              "' is no link; links are SOURCE-TARGET, numbers of words from 0, as 0-1, or 0?1 where they are possible, "
              "not sure");
  }
}
