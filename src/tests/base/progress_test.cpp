#include "base/progress.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

using namespace nmt;

TEST_CASE("the progress line shows a bar, the text and the time left") {
  CHECK(Progress::line(0.5, 10, "5.0 lines/s") == "[###############               ]  50%  5.0 lines/s  0:00:10 left");
  CHECK(Progress::line(1, 10, "5.0 lines/s") == "[##############################] 100%  5.0 lines/s  0:00:00 left");
  CHECK(Progress::line(1.1, 10, "x") == Progress::line(1, 10, "x"));
  CHECK(Progress::line(0, 10, "x") == "[                              ]   0%  x");
  CHECK(Progress::line(-1, 10, "5.0 lines/s") == "5.0 lines/s");
  CHECK(Progress::line(std::nan(""), 10, "x") == "x");
}

TEST_CASE("times of any length have hours, minutes and seconds") {
  CHECK(hours_minutes_seconds(0) == "0:00:00");
  CHECK(hours_minutes_seconds(59.6) == "0:01:00");
  CHECK(hours_minutes_seconds(3600 * 25 + 61) == "25:01:01");
  CHECK(hours_minutes_seconds(3e9) == "833333:20:00");  // more seconds than an int holds
  CHECK(hours_minutes_seconds(-1) == "0:00:00");
  CHECK(hours_minutes_seconds(std::nan("")) == "0:00:00");
  const std::string longest = hours_minutes_seconds(1e15);
  CHECK(longest == "277777777777:46:40");
  CHECK(hours_minutes_seconds(1e300) == longest);
  CHECK(hours_minutes_seconds(std::numeric_limits<double>::infinity()) == longest);
  CHECK(Progress::line(1e-300, 10, "x").ends_with(longest + " left"));
}
