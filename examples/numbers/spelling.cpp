#include "spelling.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace nmt::numbers {
namespace {

constexpr std::array<std::string_view, 20> kOnesEn = {
    "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kTensEn = {"",      "",      "twenty",  "thirty", "forty",
                                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 20> kOnesDe = {
    "null", "ein", "zwei",  "drei",     "vier",     "fünf",     "sechs",    "sieben",   "acht",     "neun",
    "zehn", "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
constexpr std::array<std::string_view, 10> kTensDe = {"",        "",        "zwanzig", "dreißig", "vierzig",
                                                      "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};

std::string below_hundred_en(int64_t n) {
  if (n < 20) return std::string(kOnesEn[n]);
  std::string text(kTensEn[n / 10]);
  if (n % 10) text += '-' + std::string(kOnesEn[n % 10]);
  return text;
}

int hour12(int minutes) {
  const int hour = minutes / 60 % 12;
  return hour == 0 ? 12 : hour;
}

}  // namespace

std::string cardinal_en(int64_t n) {
  check(n >= 0 && n < 1'000'000'000, "number {} out of range", n);
  if (n < 100) return below_hundred_en(n);
  std::string text;
  const auto join = [&text](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (n >= 1'000'000) join(cardinal_en(n / 1'000'000) + " million");
  if (const int64_t thousands = n / 1000 % 1000) join(cardinal_en(thousands) + " thousand");
  if (const int64_t hundreds = n / 100 % 10) join(std::string(kOnesEn[hundreds]) + " hundred");
  if (n % 100) join("and " + below_hundred_en(n % 100));
  return text;
}

std::string cardinal_de_prefix(int64_t n) {
  check(n >= 0 && n < 1'000'000'000, "number {} out of range", n);
  if (n >= 1'000'000) {
    const int64_t millions = n / 1'000'000, rest = n % 1'000'000;
    return (millions == 1 ? "eine Million" : cardinal_de_prefix(millions) + " Millionen") +
           (rest ? ' ' + cardinal_de_prefix(rest) : "");
  }
  std::string text;
  if (n >= 1000) text += cardinal_de_prefix(n / 1000) + "tausend";
  if (const int64_t hundreds = n / 100 % 10) text += std::string(kOnesDe[hundreds]) + "hundert";
  const int64_t rest = n % 100;
  if (rest >= 20) {
    if (rest % 10) text += std::string(kOnesDe[rest % 10]) + "und";
    text += kTensDe[rest / 10];
  } else if (rest > 0 || n == 0) {
    text += kOnesDe[rest];
  }
  return text;
}

std::string cardinal_de(int64_t n) { return cardinal_de_prefix(n) + (n % 100 == 1 ? "s" : ""); }

std::string ordinal_en(int64_t n) {
  check(n >= 1 && n < 1000, "ordinal {} out of range", n);
  std::string text = cardinal_en(n);
  const size_t start = text.find_last_of(" -");
  const std::string head = start == std::string::npos ? "" : text.substr(0, start + 1);
  const std::string last = text.substr(head.size());
  if (last == "one") return head + "first";
  if (last == "two") return head + "second";
  if (last == "three") return head + "third";
  if (last == "five") return head + "fifth";
  if (last == "eight") return head + "eighth";
  if (last == "nine") return head + "ninth";
  if (last == "twelve") return head + "twelfth";
  if (last.ends_with('y')) return head + last.substr(0, last.size() - 1) + "ieth";
  return text + "th";
}

std::string ordinal_digits_en(int64_t n) {
  const int64_t last = n % 10;
  const bool teen = n / 10 % 10 == 1;
  return fmt::format("{}{}", n, teen || last > 3 || last == 0 ? "th" : last == 1 ? "st" : last == 2 ? "nd" : "rd");
}

std::string ordinal_stem_de(int64_t n) {
  check(n >= 1 && n < 1000, "ordinal {} out of range", n);
  const int64_t rest = n % 100;
  if (rest == 0 || rest >= 20) return cardinal_de_prefix(n) + "st";
  const std::string head = n >= 100 ? cardinal_de_prefix(n - rest) : "";
  if (rest == 1) return head + "erst";
  if (rest == 3) return head + "dritt";
  if (rest == 7) return head + "siebt";
  if (rest == 8) return head + "acht";
  return head + std::string(kOnesDe[rest]) + "t";
}

std::string decimal_words_en(int64_t hundredths) {
  std::string text = cardinal_en(hundredths / 100);
  const int64_t tenth = hundredths / 10 % 10, hundredth = hundredths % 10;
  if (tenth || hundredth) text += " point " + cardinal_en(tenth);
  if (hundredth) text += ' ' + cardinal_en(hundredth);
  return text;
}

std::string decimal_words_de(int64_t hundredths) {
  std::string text = cardinal_de(hundredths / 100);
  const int64_t tenth = hundredths / 10 % 10, hundredth = hundredths % 10;
  if (tenth || hundredth) text += " Komma " + cardinal_de(tenth);
  if (hundredth) text += ' ' + cardinal_de(hundredth);
  return text;
}

std::string grouped(int64_t n, char group) {
  std::string text = std::to_string(n);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), 1, group);
  return text;
}

std::string decimal_digits(int64_t hundredths, int places, char group, char point) {
  const std::string whole = grouped(hundredths / 100, group);
  if (places == 0) return whole;
  if (places == 1) return fmt::format("{}{}{}", whole, point, hundredths / 10 % 10);
  return fmt::format("{}{}{:02}", whole, point, hundredths % 100);
}

std::string year_en(int year) {
  check(year >= 1300 && year < 2100, "year {} out of range", year);
  if (year >= 2000 && year < 2010) return cardinal_en(year);
  const std::string century = cardinal_en(year / 100);
  const int rest = year % 100;
  if (rest == 0) return century + " hundred";
  return century + (rest < 10 ? " oh " : " ") + cardinal_en(rest);
}

std::string spoken_time_en(int minutes) {
  const int minute = minutes % 60;
  const std::string hour = cardinal_en(hour12(minutes)), next = cardinal_en(hour12(minutes + 60));
  if (minute % 5) return plain_time_en(minutes);
  if (minute == 0) return hour + " o'clock";
  if (minute == 15) return "quarter past " + hour;
  if (minute == 30) return "half past " + hour;
  if (minute == 45) return "quarter to " + next;
  return minute < 30 ? cardinal_en(minute) + " past " + hour : cardinal_en(60 - minute) + " to " + next;
}

std::string spoken_time_de(int minutes) {
  const int minute = minutes % 60;
  const std::string hour = cardinal_de(hour12(minutes)), next = cardinal_de(hour12(minutes + 60));
  if (minute == 0 || minute % 5) return plain_time_de(minutes);
  if (minute == 15) return "Viertel nach " + hour;
  if (minute == 25) return "fünf vor halb " + next;
  if (minute == 30) return "halb " + next;
  if (minute == 35) return "fünf nach halb " + next;
  if (minute == 45) return "Viertel vor " + next;
  return minute < 30 ? cardinal_de(minute) + " nach " + hour : cardinal_de(60 - minute) + " vor " + next;
}

std::string plain_time_en(int minutes) {
  const int minute = minutes % 60;
  const std::string hour = cardinal_en(hour12(minutes));
  if (minute == 0) return hour + " o'clock";
  return hour + (minute < 10 ? " oh " : " ") + cardinal_en(minute);
}

std::string plain_time_de(int minutes) {
  const int minute = minutes % 60;
  const std::string hour = cardinal_de_prefix(hour12(minutes)) + " Uhr";  // "ein Uhr"
  return minute == 0 ? hour : hour + ' ' + cardinal_de(minute);
}

std::string digital_time_en(int minutes) {
  return fmt::format("{}:{:02} {}", hour12(minutes), minutes % 60, minutes % 1440 < 720 ? "am" : "pm");
}

std::string digital_time_de(int minutes) { return fmt::format("{}:{:02} Uhr", minutes / 60 % 24, minutes % 60); }

}  // namespace nmt::numbers
