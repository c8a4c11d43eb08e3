#include "train/amount.h"

#include "base/error.h"
#include "tests/catch.h"
#include "tests/complaint.h"

using namespace nmt;
using nmt::testing::complaint_of;
using Unit = Amount::Unit;

TEST_CASE("amounts have units") {
  const auto check_amount = [](const char* text, Unit unit, double count) {
    const Amount amount = Amount::parse("after", text);
    INFO(text);
    CHECK(amount.unit == unit);
    CHECK(amount.count == count);
  };
  check_amount("7", Unit::kUpdates, 7);
  check_amount("100Ku", Unit::kUpdates, 100e3);
  check_amount("2M", Unit::kUpdates, 2e6);
  check_amount("16.1Ku", Unit::kUpdates, 16100);
  check_amount("2.001Mu", Unit::kUpdates, 2001000);
  check_amount("10e", Unit::kEpochs, 10);
  check_amount("1e", Unit::kEpochs, 1);
  check_amount("1Gt", Unit::kTokens, 1e9);
  check_amount("1.5Mt", Unit::kTokens, 1.5e6);
  check_amount("30s", Unit::kSeconds, 30);
  check_amount("10min", Unit::kSeconds, 600);
  check_amount("0.5h", Unit::kSeconds, 1800);
  check_amount("0", Unit::kUpdates, 0);
  const auto list = Amount::parse_list("after", "10e,2h,5Ku");
  REQUIRE(list.size() == 3);
  CHECK(list[2].count == 5000);
}

TEST_CASE("what is no amount is told by option and text") {
  for (const char* text :
       {"", "u", "-1u", "10x", "10 u", " 10", "inf", "nan", "1e400", "5Kmin", "0.5e", "1.5u", "10ee", "0x10", "1,5u"})
    CHECK_THROWS_AS(Amount::parse("after", text), UserError);
  for (const char* text : {"", ",", "1u,", ",1u", "1u,,2u"})
    CHECK_THROWS_AS(Amount::parse_list("after", text), UserError);
  CHECK(complaint_of([] { Amount::parse("save-freq", "soon"); }) ==
        "--save-freq: 'soon' is not an amount such as 5000u (updates), 10e (epochs), 1Gt (target tokens) or 30min");
}

TEST_CASE("an amount is reached once, and its multiples are crossed") {
  TrainingProgress before, now;
  before.updates = 9;
  now.updates = 10;
  before.tokens = 950;
  now.tokens = 1210;
  before.seconds = 59.9;
  now.seconds = 60.1;
  const auto amount = [](const char* text) { return Amount::parse("after", text); };
  CHECK(amount("10u").reached(now));
  CHECK(!amount("10u").reached(before));
  CHECK(amount("5u").crossed(before, now));
  CHECK(!amount("4u").crossed(before, now));
  CHECK(amount("1Kt").crossed(before, now));
  CHECK(amount("100t").crossed(before, now));  // more than one multiple at once
  CHECK(!amount("700t").crossed(before, now));
  CHECK(amount("1min").crossed(before, now));
  CHECK(amount("20s").crossed(before, now));
  CHECK(!amount("1h").crossed(before, now));
  CHECK(!amount("1e").crossed(before, now));
  now.epochs = 1;
  CHECK(amount("1e").crossed(before, now));
  CHECK(!amount("2e").crossed(before, now));
  CHECK(!amount("0").reached(now));
  CHECK(!amount("0").crossed(before, now));
}

TEST_CASE("the update that ends an epoch belongs to it") {
  TrainingProgress p;
  CHECK(p.epoch() == 1);
  p.epochs = 1;
  p.epoch_ended = true;
  CHECK(p.epoch() == 1);
  p.epoch_ended = false;
  CHECK(p.epoch() == 2);
}
