#include "slots.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "spelling.h"

namespace nmt::numbers {
namespace {

constexpr double kDigitSentences = 0.35;  // the share of sentences that write their numbers in digits
constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

}  // namespace

Slots::Slots(Random& random)
    : random_(random),
      digits_(chance(kDigitSentences)),
      symbol_(chance(0.5)),
      currency_(chance(0.6) ? kEuro : kDollar) {}

Phrase Slots::draw(std::string_view kind) {
  const auto found = kinds().find(kind);
  check(found != kinds().end(), "carrier: no such slot '{}'", kind);
  return found->second(*this);
}

// About as many numbers of each length, but fewer of one digit than of the others.
int64_t Slots::spread(int64_t low, int64_t high) {
  int64_t from = low, to = high;
  for (int tries = 0; tries < 20; ++tries) {
    constexpr int64_t kBands[][2] = {{1, 20},      {21, 99},     {21, 99},       {21, 99},
                                     {100, 999},   {100, 999},   {100, 999},     {100, 999},
                                     {1000, 9999}, {1000, 9999}, {10000, 99999}, {100000, 999999}};
    const auto& band = pick(kBands);
    from = std::max(low, band[0]);
    to = std::min(high, band[1]);
    if (from <= to) break;
  }
  if (from > to) from = low, to = high;
  int64_t n = between(from, to);
  // Long compounds are rare in both languages; most large numbers are round.
  if (n >= 1000 && !digits_ && !chance(0.05)) {
    const int64_t unit = n < 10'000 ? (chance(0.5) ? 100 : 1) : n < 100'000 ? 100 : 1000;
    n = std::max(low, n / unit * unit);
  }
  return n;
}

// 101, 201 ... before a noun are contested in German ("hundertein Brief", "hunderteins Briefe"): left out.
int64_t Slots::countable(int64_t low, int64_t high) {
  for (;;)
    if (const int64_t n = spread(low, high); n == 1 || n % 100 != 1) return n;
}

Phrase Slots::measure(const Noun& noun, int64_t low, int64_t high, bool tenths) {
  if (low <= 1 && chance(0.1)) return decimal(between(1, 10) * 100 + 50, noun, digits_);
  if (tenths && chance(0.1))
    return decimal(between(low, std::min<int64_t>(high, 60)) * 100 + between(1, 9) * 10, noun, digits_);
  return counted(countable(low, high), noun, digits_);
}

Phrase Slots::approximate(Phrase phrase, int64_t n) {
  if (n < 20 || !chance(0.2)) return phrase;
  const Fixed& word = pick(kApproximately);
  phrase.en = std::string(word.en) + ' ' + phrase.en;
  for (std::string& form : phrase.de) form = std::string(word.de) + ' ' + form;
  return phrase;
}

Phrase Slots::several(const Noun& noun, int64_t low, int64_t high) {
  const int64_t n = countable(low, high);
  return approximate(counted(n, noun, digits_), n);
}

Phrase Slots::goods(int64_t low) {
  int64_t id;
  const Noun& noun = pick(kThings, &id);
  const Adjective* adjective = chance(0.3) ? &pick(kAdjectives) : nullptr;
  const int64_t n = chance(0.3) ? between(low, 20) : countable(low, 9999);
  Phrase phrase = approximate(counted(n, noun, digits_, adjective), n);
  phrase.id = id;
  phrase.count = true;
  return phrase;
}

Phrase Slots::person() {
  int64_t id;
  const Person& person = pick(kPersons, &id);
  Phrase phrase;
  phrase.en = person.en;
  for (int c = 0; c < 3; ++c) phrase.de[c] = person.de[c];
  phrase.id = id;
  if (!gender_) gender_ = person.gender;
  return phrase;
}

Phrase Slots::item() {
  const Noun& noun = pick(kThings);
  const bool here = chance(0.5);
  const std::string_view article = noun.gender == 'm' ? "der" : noun.gender == 'f' ? "die" : "das";
  const std::string_view pointing = noun.gender == 'm' ? "dieser" : noun.gender == 'f' ? "diese" : "dieses";
  Phrase phrase;  // nominative only
  phrase.en = fmt::format("{} {}", here ? "this" : "the", noun.en);
  phrase.de[kNominative] = fmt::format("{} {}", here ? pointing : article, noun.de);
  return phrase;
}

Phrase Slots::price() {
  const int64_t whole = spread(digits_ ? 2 : 1, 999);
  const int64_t cents = chance(0.5) ? between(1, 19) * 5 : chance(0.3) ? between(1, 99) : 0;
  return money(whole * 100 + cents, currency_, digits_, symbol_);
}

Phrase Slots::in_millions(const Noun& noun) {
  const double form = random_.uniform();
  if (form < 0.25) return counted(between(100, 999) * 1000, noun, digits_);
  return millions(form < 0.6 ? between(1, 20) * 100 : between(1, 49) * 100 + between(1, 9) * 10, noun, digits_);
}

Phrase Slots::amount() {
  const bool solid = chance(0.5);
  const Noun& unit = solid ? pick(kSolids) : pick(kLiquids);
  int64_t id;
  const Fixed& stuff = solid ? pick(kSolidStuff, &id) : pick(kLiquidStuff, &id);
  const bool grams = unit.en == "gram", divisible = unit.en == "kilogram" || unit.en == "litre" || unit.en == "tonne";
  Phrase phrase = divisible ? measure(unit, 1, 999, true) : counted(countable(grams ? 21 : 1, 999), unit, digits_);
  phrase.en += " of " + std::string(stuff.en);
  for (std::string& form : phrase.de) form += ' ' + std::string(stuff.de);
  phrase.id = solid ? id : id + 100;
  phrase.count = true;
  return phrase;
}

Phrase Slots::degrees() {
  Phrase phrase = measure(kDegree, 2, 40, true);
  if (!chance(0.35)) return phrase;
  phrase.en = "minus " + phrase.en;
  for (std::string& form : phrase.de) form = "minus " + form;
  return phrase;
}

Phrase Slots::times() {
  const int64_t n = chance(0.4) ? between(3, 20) : between(21, 199);
  return digits_ ? same(fmt::format("{} times", n), fmt::format("{}-mal", n))
                 : same(cardinal_en(n) + " times", cardinal_de_prefix(n) + "mal");
}

Phrase Slots::time() {
  const int64_t at = between(5 * 60, 23 * 60 - 1);
  const int minutes = static_cast<int>(chance(0.6) ? at / 5 * 5 : at);
  Phrase phrase;
  if (digits_) {
    phrase = same(digital_time_en(minutes), digital_time_de(minutes));
  } else {
    phrase = chance(0.75) ? same(spoken_time_en(minutes), spoken_time_de(minutes))
                          : same(plain_time_en(minutes), plain_time_de(minutes));
    if (const int hour = minutes / 60; hour != 12 && chance(0.3)) {
      const bool morning = hour < 12, evening = hour >= 18;
      phrase.en += morning ? " in the morning" : evening ? " in the evening" : " in the afternoon";
      for (std::string& form : phrase.de) form += morning ? " morgens" : evening ? " abends" : " nachmittags";
    }
  }
  phrase.order = minutes;
  return phrase;
}

Phrase Slots::date() {
  const int month = static_cast<int>(between(1, 12)), day = static_cast<int>(between(1, kDays[month - 1]));
  return calendar(month, day, static_cast<int>(between(0, 2)), digits_);
}

Phrase Slots::full_date() {
  const int month = static_cast<int>(between(1, 12)), day = static_cast<int>(between(1, kDays[month - 1]));
  const int64_t year = between(1880, 2020);
  if (digits_ && chance(0.3))
    return same(fmt::format("{}-{:02}-{:02}", year, month, day), fmt::format("{:02}.{:02}.{}", day, month, year));
  Phrase phrase = calendar(month, day, 0, digits_);
  phrase.en += fmt::format(" {}", year);
  for (std::string& form : phrase.de) form += fmt::format(" {}", year);
  return phrase;
}

Phrase Slots::year(int64_t first) {
  const int year = static_cast<int>(between(first, 2024));
  Phrase phrase = same(digits_ ? std::to_string(year) : year_en(year), std::to_string(year));
  phrase.order = year;
  return phrase;
}

// Names (years, rooms, pages) are written in digits in German, whatever the English does.
Phrase Slots::name(int64_t n) const { return same(digits_ ? std::to_string(n) : cardinal_en(n), std::to_string(n)); }

// Ordinals are written out in German, dates excepted.
Phrase Slots::ordinal(int64_t n) const {
  return same(digits_ ? ordinal_digits_en(n) : ordinal_en(n), ordinal_stem_de(n));
}

Phrase Slots::aged(int64_t n) const {
  const std::string article = n == 8 || n == 11 || n == 18 || n / 10 == 8 ? "an" : "a";
  return digits_ ? same(fmt::format("{} {}-year-old", article, n), fmt::format("{}-jährig", n))
                 : same(fmt::format("{} {}-year-old", article, cardinal_en(n)), cardinal_de_prefix(n) + "jährig");
}

Phrase Slots::term(int64_t n) {
  terms_.push_back(n);
  Phrase phrase = bare(n, digits_);
  phrase.order = -1;  // any second term will do
  return phrase;
}

const std::map<std::string_view, Slots::Draw>& Slots::kinds() {
  static const std::map<std::string_view, Draw> table = {
      {"addend", [](Slots& s) { return s.term(s.between(12, 499)); }},
      {"aged", [](Slots& s) { return s.aged(s.between(18, 99)); }},
      {"amount", [](Slots& s) { return s.amount(); }},
      {"bigprice", [](Slots& s) { return money(s.countable(100, 99'999) * 100, s.currency_, s.digits_, s.symbol_); }},
      {"building", [](Slots& s) { return s.fixed(kBuildings); }},
      {"city", [](Slots& s) { return s.fixed(kCities); }},
      {"crowd", [](Slots& s) { return s.several(s.pick(kPeople), 21, 999'999); }},
      {"date", [](Slots& s) { return s.date(); }},
      {"degrees", [](Slots& s) { return s.degrees(); }},
      {"difference", [](Slots& s) { return bare(s.terms_.at(0) - s.terms_.at(1), s.digits_); }},
      {"distance", [](Slots& s) { return s.measure(s.pick(kDistances), true); }},
      {"duration", [](Slots& s) { return s.measure(s.pick(kDurations), false); }},
      {"event", [](Slots& s) { return s.fixed(kEvents); }},
      {"factor", [](Slots& s) { return s.term(s.between(2, 12)); }},
      {"floor", [](Slots& s) { return s.ordinal(s.between(1, 60)); }},
      {"fulldate", [](Slots& s) { return s.full_date(); }},
      {"group", [](Slots& s) { return s.several(s.pick(kPeople), 2, 99); }},
      {"hours", [](Slots& s) { return counted(s.between(1, 23), kHour, s.digits_); }},
      {"item", [](Slots& s) { return s.item(); }},
      {"label", [](Slots& s) { return s.name(s.spread(2, 999)); }},
      {"metres", [](Slots& s) { return s.measure(kMetre, 1, 999, true); }},
      {"millions", [](Slots& s) { return s.in_millions(s.currency_); }},
      {"minutes", [](Slots& s) { return counted(s.between(2, 59), kMinute, s.digits_); }},
      {"month", [](Slots& s) { return s.fixed(kMonths); }},
      {"number", [](Slots& s) { return bare(s.spread(21, 999'999), s.digits_); }},
      {"ord", [](Slots& s) { return s.ordinal(s.between(2, 99)); }},
      {"pages", [](Slots& s) { return s.several(kPage, 21, 1200); }},
      {"passengers", [](Slots& s) { return s.several(kPassenger, 21, 4999); }},
      {"people",
       [](Slots& s) {
         const Noun& noun = s.pick(kPeople);
         return same(std::string(noun.en_plural), std::string(noun.de_plural));
       }},
      {"percent", [](Slots& s) { return s.measure(kPercent, 2, 99, true); }},
      {"person", [](Slots& s) { return s.person(); }},
      {"place", [](Slots& s) { return s.fixed(kPlaces); }},
      {"platform", [](Slots& s) { return s.name(s.between(1, 40)); }},
      {"population", [](Slots& s) { return s.in_millions(kHuman); }},
      {"poss", [](Slots& s) { return s.gender_ == 'f' ? same("her", "ihr") : same("his", "sein"); }},
      {"price", [](Slots& s) { return s.price(); }},
      {"product", [](Slots& s) { return bare(s.terms_.at(0) * s.terms_.at(1), s.digits_); }},
      {"recent", [](Slots& s) { return s.year(1975); }},
      {"score", [](Slots& s) { return bare(s.between(101, 999), s.digits_); }},
      {"shop", [](Slots& s) { return s.fixed(kShops); }},
      {"span", [](Slots& s) { return s.measure(s.pick(kSpans), false); }},
      {"subtrahend", [](Slots& s) { return s.term(s.between(1, s.terms_.at(0) - 1)); }},
      {"sum", [](Slots& s) { return bare(s.terms_.at(0) + s.terms_.at(1), s.digits_); }},
      {"thing", [](Slots& s) { return s.goods(1); }},
      {"things", [](Slots& s) { return s.goods(2); }},
      {"time", [](Slots& s) { return s.time(); }},
      {"times", [](Slots& s) { return s.times(); }},
      {"vehicle", [](Slots& s) { return s.fixed(kVehicles); }},
      {"votes", [](Slots& s) { return s.several(kVote, 21, 999'999); }},
      {"weekday", [](Slots& s) { return s.fixed(kWeekdays); }},
      {"weight", [](Slots& s) { return s.measure(kKilogram, 1, 150, true); }},
      {"workers", [](Slots& s) { return s.several(kWorker, 21, 99'999); }},
      {"year", [](Slots& s) { return s.year(1850); }},
      {"years", [](Slots& s) { return counted(s.between(1, 99), kYear, s.digits_); }},
      {"young", [](Slots& s) { return s.aged(s.between(2, 17)); }},
  };
  return table;
}

}  // namespace nmt::numbers
