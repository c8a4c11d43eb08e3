#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "corpus.h"
#include "phrase.h"
#include "slots.h"
#include "spelling.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"
#include "values.h"

using namespace nmt::numbers;
using Strings = std::vector<std::string>;

TEST_CASE("cardinals in both languages") {
  const std::vector<std::tuple<int64_t, const char*, const char*>> table = {
      {0, "zero", "null"},
      {1, "one", "eins"},
      {7, "seven", "sieben"},
      {12, "twelve", "zwölf"},
      {16, "sixteen", "sechzehn"},
      {17, "seventeen", "siebzehn"},
      {21, "twenty-one", "einundzwanzig"},
      {30, "thirty", "dreißig"},
      {31, "thirty-one", "einunddreißig"},
      {66, "sixty-six", "sechsundsechzig"},
      {77, "seventy-seven", "siebenundsiebzig"},
      {100, "one hundred", "einhundert"},
      {101, "one hundred and one", "einhunderteins"},
      {116, "one hundred and sixteen", "einhundertsechzehn"},
      {121, "one hundred and twenty-one", "einhunderteinundzwanzig"},
      {999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"},
      {1000, "one thousand", "eintausend"},
      {1001, "one thousand and one", "eintausendeins"},
      {1100, "one thousand one hundred", "eintausendeinhundert"},
      {1250, "one thousand two hundred and fifty", "eintausendzweihundertfünfzig"},
      {21000, "twenty-one thousand", "einundzwanzigtausend"},
      {100000, "one hundred thousand", "einhunderttausend"},
      {101000, "one hundred and one thousand", "einhunderteintausend"},
      {999999, "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
       "neunhundertneunundneunzigtausendneunhundertneunundneunzig"},
      {1000000, "one million", "eine Million"},
      {2000000, "two million", "zwei Millionen"},
      {21000001, "twenty-one million and one", "einundzwanzig Millionen eins"},
  };
  for (const auto& [n, en, de] : table) {
    CHECK(cardinal_en(n) == en);
    CHECK(cardinal_de(n) == de);
  }
  CHECK_THROWS_AS(cardinal_en(-1), std::logic_error);
  CHECK_THROWS_AS(cardinal_de(1'000'000'000), std::logic_error);
}

TEST_CASE("ordinals") {
  const std::vector<std::tuple<int64_t, const char*, const char*, const char*>> table = {
      {1, "first", "1st", "erst"},
      {2, "second", "2nd", "zweit"},
      {3, "third", "3rd", "dritt"},
      {5, "fifth", "5th", "fünft"},
      {7, "seventh", "7th", "siebt"},
      {8, "eighth", "8th", "acht"},
      {9, "ninth", "9th", "neunt"},
      {12, "twelfth", "12th", "zwölft"},
      {13, "thirteenth", "13th", "dreizehnt"},
      {20, "twentieth", "20th", "zwanzigst"},
      {21, "twenty-first", "21st", "einundzwanzigst"},
      {83, "eighty-third", "83rd", "dreiundachtzigst"},
      {100, "one hundredth", "100th", "einhundertst"},
      {101, "one hundred and first", "101st", "einhunderterst"},
      {111, "one hundred and eleventh", "111th", "einhundertelft"},
  };
  for (const auto& [n, en, digits, de] : table) {
    CHECK(ordinal_en(n) == en);
    CHECK(ordinal_digits_en(n) == digits);
    CHECK(ordinal_stem_de(n) == de);
  }
}

TEST_CASE("times of the day") {
  const std::vector<std::tuple<int, const char*, const char*, const char*, const char*>> table = {
      {15 * 60, "three o'clock", "drei Uhr", "3:00 pm", "15:00 Uhr"},
      {13 * 60, "one o'clock", "ein Uhr", "1:00 pm", "13:00 Uhr"},
      {9 * 60 + 5, "five past nine", "fünf nach neun", "9:05 am", "9:05 Uhr"},
      {15 * 60 + 15, "quarter past three", "Viertel nach drei", "3:15 pm", "15:15 Uhr"},
      {15 * 60 + 25, "twenty-five past three", "fünf vor halb vier", "3:25 pm", "15:25 Uhr"},
      {15 * 60 + 30, "half past three", "halb vier", "3:30 pm", "15:30 Uhr"},
      {12 * 60 + 30, "half past twelve", "halb eins", "12:30 pm", "12:30 Uhr"},
      {15 * 60 + 35, "twenty-five to four", "fünf nach halb vier", "3:35 pm", "15:35 Uhr"},
      {11 * 60 + 45, "quarter to twelve", "Viertel vor zwölf", "11:45 am", "11:45 Uhr"},
      {12 * 60 + 50, "ten to one", "zehn vor eins", "12:50 pm", "12:50 Uhr"},
      {15, "quarter past twelve", "Viertel nach zwölf", "12:15 am", "0:15 Uhr"},
      {13 * 60 + 7, "one oh seven", "ein Uhr sieben", "1:07 pm", "13:07 Uhr"},
      {7 * 60 + 41, "seven forty-one", "sieben Uhr einundvierzig", "7:41 am", "7:41 Uhr"},
  };
  for (const auto& [minutes, en, de, en_digits, de_digits] : table) {
    CHECK(spoken_time_en(minutes) == en);
    CHECK(spoken_time_de(minutes) == de);
    CHECK(digital_time_en(minutes) == en_digits);
    CHECK(digital_time_de(minutes) == de_digits);
  }
  CHECK(plain_time_en(15 * 60 + 30) == "three thirty");
  CHECK(plain_time_de(15 * 60 + 30) == "drei Uhr dreißig");
}

TEST_CASE("years and decimals") {
  CHECK(year_en(1987) == "nineteen eighty-seven");
  CHECK(year_en(1805) == "eighteen oh five");
  CHECK(year_en(1900) == "nineteen hundred");
  CHECK(year_en(2000) == "two thousand");
  CHECK(year_en(2005) == "two thousand and five");
  CHECK(year_en(2015) == "twenty fifteen");
  CHECK(grouped(1250, ',') == "1,250");
  CHECK(grouped(999, '.') == "999");
  CHECK(grouped(1234567, '.') == "1.234.567");
  CHECK(decimal_digits(125050, 2, '.', ',') == "1.250,50");
  CHECK(decimal_digits(1205, 2, ',', '.') == "12.05");
  CHECK(decimal_digits(350, 1, ',', '.') == "3.5");
  CHECK(decimal_words_en(325) == "three point two five");
  CHECK(decimal_words_de(325) == "drei Komma zwei fünf");
  CHECK(decimal_words_de(130) == "eins Komma drei");
}

TEST_CASE("numbers agree with what they count") {
  const auto forms = [](const Phrase& p) { return Strings{p.en, p.de[0], p.de[1], p.de[2]}; };
  const Adjective red{"red", "rot"};
  CHECK(forms(counted(1, kThings[0], false)) == Strings{"one apple", "ein Apfel", "einen Apfel", "einem Apfel"});
  CHECK(forms(counted(1, kThings[0], false, &red)) ==
        Strings{"one red apple", "ein roter Apfel", "einen roten Apfel", "einem roten Apfel"});
  CHECK(forms(counted(1, kThings[1], false, &red)) ==
        Strings{"one red egg", "ein rotes Ei", "ein rotes Ei", "einem roten Ei"});
  CHECK(forms(counted(1, kHour, false)) == Strings{"one hour", "eine Stunde", "eine Stunde", "einer Stunde"});
  CHECK(forms(counted(21, kThings[0], false, &red)) == Strings{"twenty-one red apples", "einundzwanzig rote Äpfel",
                                                               "einundzwanzig rote Äpfel",
                                                               "einundzwanzig roten Äpfeln"});
  CHECK(forms(counted(1250, kThings[0], true)) ==
        Strings{"1,250 apples", "1.250 Äpfel", "1.250 Äpfel", "1.250 Äpfeln"});
  CHECK(counted(1, kKilogram, false).de[kNominative] == "ein Kilogramm");
  CHECK(counted(2, kKilogram, false).de[kDative] == "zwei Kilogramm");
  CHECK(forms(decimal(150, kHour, false)) ==
        Strings{"one and a half hours", "anderthalb Stunden", "anderthalb Stunden", "anderthalb Stunden"});
  CHECK(decimal(250, kDay, false).de[kDative] == "zweieinhalb Tagen");
  CHECK(decimal(250, kDay, true).de[kDative] == "2,5 Tagen");
  CHECK(decimal(370, kKilogram, false).de[kNominative] == "drei Komma sieben Kilogramm");
  CHECK(forms(millions(100, kHuman, false)) ==
        Strings{"one million people", "eine Million Menschen", "eine Million Menschen", "einer Million Menschen"});
  CHECK(millions(200, kHuman, false).de[kNominative] == "zwei Millionen Menschen");
  CHECK(millions(150, kHuman, true).de[kNominative] == "1,5 Millionen Menschen");
}

TEST_CASE("prices and dates") {
  CHECK(money(1250, kEuro, true, true).en == "€12.50");
  CHECK(money(1250, kEuro, true, true).de[kAccusative] == "12,50 €");
  CHECK(money(125000, kDollar, true, true).en == "$1,250");
  CHECK(money(125000, kDollar, true, true).de[kAccusative] == "1.250 $");
  CHECK(money(1205, kEuro, true, false).en == "12.05 euros");
  CHECK(money(1205, kEuro, true, false).de[kDative] == "12,05 Euro");
  CHECK(money(1250, kEuro, false, false).en == "twelve euros and fifty cents");
  CHECK(money(1250, kEuro, false, false).de[kAccusative] == "zwölf Euro und fünfzig Cent");
  CHECK(money(101, kEuro, false, false).en == "one euro and one cent");
  CHECK(money(101, kEuro, false, false).de[kAccusative] == "einen Euro und einen Cent");
  CHECK(calendar(5, 21, 0, false).en == "the twenty-first of May");
  CHECK(calendar(5, 21, 0, false).de[kNominative] == "einundzwanzigste Mai");
  CHECK(calendar(5, 21, 0, false).de[kDative] == "einundzwanzigsten Mai");
  CHECK(calendar(3, 3, 0, true).en == "3 March");
  CHECK(calendar(3, 3, 1, true).en == "March 3");
  CHECK(calendar(3, 3, 2, true).en == "March 3rd");
  CHECK(calendar(3, 3, 2, true).de[kDative] == "3. März");
}

TEST_CASE("values are read from the English, however they are written") {
  const std::vector<std::pair<const char*, Strings>> table = {
      {"Anna saw three hundred and forty-seven red apples in the garden.", {"347"}},
      {"Anna saw 347 apples and one thousand and five eggs.", {"347", "1005"}},
      {"Peter needs two kilograms of flour and 2 litres of milk.", {"2 kilograms", "2 litres"}},
      {"It takes two and a half hours, or 2.5 hours.", {"2.5 hours", "2.5 hours"}},
      {"The train leaves at half past three in the afternoon.", {"3:30"}},
      {"It is open from twenty-five to four to ten oh five.", {"3:35", "10:05"}},
      {"It is open from five ten to quarter to one.", {"5:10", "12:45"}},
      {"It begins at 3:45 pm, not at three forty-five.", {"3:45", "3:45"}},
      {"It begins at 12:15 am and ends at one o'clock.", {"12:15", "1:00"}},
      {"Paul was born on the twenty-first of May 1987 in Rome.", {"5-21", "1987"}},
      {"Paul was born on 1987-05-21, not on May 22nd or 23 May.", {"5-21", "1987", "5-22", "5-23"}},
      {"In nineteen eighty-seven, three hundred and one people came.", {"1987", "301"}},
      {"It was built in eighteen oh five, two thousand and five or nineteen hundred.", {"1805", "2005", "1900"}},
      {"It costs €12.50, $1,250 or five euros.", {"12.5", "1250", "5 euros"}},
      {"It costs twelve euros and twenty-five cents in the shop.", {"12.25"}},
      {"It costs one euro and fifty cents, or €1.50.", {"1.5 euros", "1.5 euros"}},
      {"About 2.5 million people and one million two hundred thousand dogs.", {"2500000", "1200000"}},
      {"one point five million people and two million people", {"1500000", "2000000 people"}},
      {"It was minus twelve degrees and minus 23 degrees.", {"-12 degrees", "-23"}},
      {"Anna is in room seven. Peter is in room 214.", {"room 7", "214"}},
      {"A twenty-one-year-old man, a 7-year-old boy and his 83rd birthday.", {"21", "7 year-old", "83"}},
      {"Six times seven is 42.", {"6 times", "7 is", "42"}},
      {"The score rose from one hundred and five to two hundred.", {"105", "200"}},
      {"It weighs three point seven kilograms.", {"3.7"}},
      {"Nobody came in May.", {}},
      {"hundred and half past million point to", {}},
  };
  for (const auto& [english, expected] : table) {
    INFO(english);
    CHECK(values(english) == expected);
  }
  nmt::Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const int64_t n = 101 + static_cast<int64_t>(random.below(i % 2 ? 999'000 : 9000));
    CHECK(values("about " + cardinal_en(n) + " cars") == Strings{std::to_string(n)});
    CHECK(values("about " + grouped(n, ',') + " cars") == Strings{std::to_string(n)});
  }
  for (int minutes = 0; minutes < 1440; ++minutes) {
    const Strings digital = values("at " + digital_time_en(minutes));
    CHECK(digital.size() == 1);
    CHECK(values("at " + spoken_time_en(minutes)) == digital);
    CHECK(values("at " + plain_time_en(minutes)) == digital);
  }
  for (int year = 1300; year < 2100; ++year) CHECK(values("in " + year_en(year)) == Strings{std::to_string(year)});
}

TEST_CASE("hostile text has values without harm") {
  std::string text = "nine";
  for (int i = 0; i < 2000; ++i) text += i % 3 ? " hundred" : " million";
  CHECK_NOTHROW(values(text + " 99999999999999999999999999 million 9.9.9 :: 99:99 €€ - -- \xff\xfe"));
  CHECK_NOTHROW(values(""));
  CHECK_NOTHROW(values(" . , "));
}

TEST_CASE("every carrier can be filled and uses its slots on both sides") {
  const auto slots = [](std::string_view text) {
    std::set<std::string> names;
    for (size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
      const size_t end = text.find_first_of(".}", at);
      names.emplace(text.substr(at + 1, end - at - 1));
    }
    return names;
  };
  CHECK(std::size(kCarriers) >= 80);
  nmt::Random random(1);
  for (const Carrier& carrier : kCarriers) {
    INFO(carrier.en);
    CHECK(slots(carrier.en) == slots(carrier.de));
    int filled = 0;
    for (int i = 0; i < 200; ++i) {
      const auto pair = write_sentence(carrier, random);
      if (!pair) continue;
      ++filled;
      CHECK(pair->en.find_first_of("{}[]|") == std::string::npos);
      CHECK(pair->de.find_first_of("{}[]|") == std::string::npos);
      CHECK(!values(pair->en).empty());
      CHECK(pair->de.back() == pair->en.back());
    }
    CHECK(filled > 100);
  }
  CHECK_THROWS_AS(write_sentence({"{nonsense}", "x"}, random), std::logic_error);
  CHECK_THROWS_AS(write_sentence({"x", "{person}"}, random), std::logic_error);
  CHECK_THROWS_AS(write_sentence({"{item}", "{item.dat}"}, random), std::logic_error);
}

TEST_CASE("a corpus holds its values apart and repeats itself for one seed") {
  const TempFolder one, two;
  write_corpus(one.path(), {3000, 150, 150}, 5);
  write_corpus(two.path(), {3000, 150, 150}, 5);
  for (const auto* name : {"train.en", "train.de", "dev.en", "dev.de", "test.en", "test.de"})
    CHECK(nmt::read_file(one / name) == nmt::read_file(two / name));

  const Report report = examine(one.path());
  CHECK(report.sound());
  CHECK(report.train.pairs == 3000);
  CHECK(report.dev.pairs == 150);
  CHECK(report.test.pairs == 150);
  CHECK(report.test.values > 50);
  CHECK(report.test.unseen_words == 0);

  write_corpus(two.path(), {3000, 150, 150}, 6);
  CHECK(nmt::read_file(one / "train.en") != nmt::read_file(two / "train.en"));
  CHECK(examine(two.path()).sound());
}

TEST_CASE("the check finds what is wrong") {
  const TempFolder folder;
  const auto put = [&](const char* name, const char* text) {
    nmt::AtomicFile file(folder / name);
    file.write(text);
    file.commit();
  };
  put("train.en", "Anna saw 347 apples in Berlin.\nPaul saw 347 apples in Rome.\nPaul saw 347 apples in Rome.\n");
  put("train.de", "a\nb\nc\n");
  put("dev.en", "Anna has 25 new eggs today.\nAnna has 25 new eggs today.\n");
  put("dev.de", "d\nd\n");
  put("test.en", "Emma lost three hundred and forty-seven eggs.\nEmma lost three eggs.\nNo value is in this line.\n");
  put("test.de", "e\nf\ng\n");
  const Report report = examine(folder.path());
  CHECK(!report.sound());
  CHECK(report.test.known_values == 1);
  CHECK(report.dev.known_values == 0);
  CHECK(report.duplicates == 1);
  CHECK(report.ambiguous == 1);
  CHECK(report.without_value == 1);
  CHECK(report.outside == 1);

  put("test.de", "e\nf\n");
  CHECK_THROWS_AS(examine(folder.path()), nmt::UserError);
  CHECK_THROWS_AS(examine(folder / "nowhere"), nmt::UserError);
  CHECK_THROWS_AS(write_corpus(folder / "train.en", {1, 1, 1}, 1), nmt::UserError);
}

TEST_CASE("baselines copy the source and take the nearest pair") {
  const TempFolder folder;
  const auto put = [&](const char* name, const char* text) {
    nmt::AtomicFile file(folder / name);
    file.write(text);
    file.commit();
  };
  put("train.en", "Anna bought 12 apples.\nThe train leaves at 3:45 pm.\nPaul bought 13 eggs at the market.\n");
  put("train.de", "eins\nzwei\ndrei\n");
  put("test.en", "The train leaves at 4:30 pm.\nPaul bought 14 eggs at the market.\n");
  write_baselines(folder.path());
  CHECK(nmt::read_file(folder / "baseline.copy.de") == nmt::read_file(folder / "test.en"));
  CHECK(nmt::read_file(folder / "baseline.nearest.de") == "zwei\ndrei\n");
}
