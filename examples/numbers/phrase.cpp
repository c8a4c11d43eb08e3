#include "phrase.h"

#include <fmt/format.h>

#include "spelling.h"

namespace nmt::numbers {
namespace {

// "ein" before a noun: [gender][case].
std::string_view one_de(char gender, int grammatical_case) {
  constexpr std::string_view kForms[3][3] = {
      {"ein", "einen", "einem"}, {"eine", "eine", "einer"}, {"ein", "ein", "einem"}};
  return kForms[gender == 'm' ? 0 : gender == 'f' ? 1 : 2][grammatical_case];
}

// The ending of an adjective after "ein" (mixed declension) and after a number without article (strong declension).
std::string_view ending_de(char gender, bool plural, int grammatical_case) {
  if (plural) return grammatical_case == kDative ? "en" : "e";
  constexpr std::string_view kEndings[3][3] = {{"er", "en", "en"}, {"e", "e", "en"}, {"es", "es", "en"}};
  return kEndings[gender == 'm' ? 0 : gender == 'f' ? 1 : 2][grammatical_case];
}

}  // namespace

Phrase same(std::string en, const std::string& de) {
  Phrase phrase;
  phrase.en = std::move(en);
  for (std::string& form : phrase.de) form = de;
  return phrase;
}

Phrase counted(int64_t n, const Noun& noun, bool digits, const Adjective* adjective) {
  Phrase phrase;
  phrase.order = n;
  phrase.plural = n != 1;
  const auto join = [](std::string number, std::string middle, std::string_view last) {
    return number + ' ' + middle + (middle.empty() ? "" : " ") + std::string(last);
  };
  phrase.en = join(digits ? grouped(n, ',') : cardinal_en(n), std::string(adjective ? adjective->en : ""),
                   phrase.plural ? noun.en_plural : noun.en);
  for (int c = 0; c < 3; ++c) {
    const std::string number = digits ? grouped(n, '.') : n == 1 ? std::string(one_de(noun.gender, c)) : cardinal_de(n);
    const std::string middle =
        adjective ? std::string(adjective->de_stem) + std::string(ending_de(noun.gender, phrase.plural, c)) : "";
    phrase.de[c] = join(number, middle,
                        !phrase.plural ? noun.de
                        : c == kDative ? noun.de_dative_plural
                                       : noun.de_plural);
  }
  return phrase;
}

Phrase decimal(int64_t hundredths, const Noun& noun, bool digits) {
  Phrase phrase;
  phrase.order = hundredths / 100;
  const int64_t whole = hundredths / 100;
  std::string en, de;
  if (digits) {
    en = decimal_digits(hundredths, 1, ',', '.');
    de = decimal_digits(hundredths, 1, '.', ',');
  } else if (hundredths % 100 == 50 && whole >= 1 && whole <= 10) {
    en = cardinal_en(whole) + " and a half";
    de = whole == 1 ? "anderthalb" : cardinal_de(whole) + "einhalb";
  } else {
    en = decimal_words_en(hundredths);
    de = decimal_words_de(hundredths);
  }
  phrase.en = en + ' ' + std::string(noun.en_plural);
  for (int c = 0; c < 3; ++c)
    phrase.de[c] = de + ' ' + std::string(c == kDative ? noun.de_dative_plural : noun.de_plural);
  return phrase;
}

Phrase bare(int64_t n, bool digits) {
  Phrase phrase = digits ? same(grouped(n, ','), grouped(n, '.')) : same(cardinal_en(n), cardinal_de(n));
  phrase.order = n;
  return phrase;
}

Phrase money(int64_t cents, const Noun& noun, bool digits, bool symbol) {
  const int64_t whole = cents / 100, rest = cents % 100;
  Phrase phrase;
  if (digits && (symbol || rest)) {
    const int places = rest ? 2 : 0;
    const std::string en = decimal_digits(cents, places, ',', '.'), de = decimal_digits(cents, places, '.', ',');
    const bool euros = noun.en == kEuro.en;
    phrase = symbol ? same((euros ? "€" : "$") + en, de + (euros ? " €" : " $"))
                    : same(en + ' ' + std::string(noun.en_plural), de + ' ' + std::string(noun.de_plural));
  } else {
    phrase = counted(whole, noun, digits);
    if (rest) {
      const Phrase small = counted(rest, kCent, digits);
      phrase.en += " and " + small.en;
      for (int c = 0; c < 3; ++c) phrase.de[c] += " und " + small.de[c];
    }
  }
  phrase.order = cents;
  return phrase;
}

Phrase millions(int64_t hundredths, const Noun& noun, bool digits) {
  const int64_t whole = hundredths / 100;
  Phrase phrase;
  if (digits) {
    const int places = hundredths % 100 ? 1 : 0;
    phrase = same(decimal_digits(hundredths, places, ',', '.') + " million",
                  decimal_digits(hundredths, places, '.', ',') + (hundredths == 100 ? " Million" : " Millionen"));
  } else if (hundredths == 100) {
    phrase = same("one million", "eine Million");
    phrase.de[kDative] = "einer Million";
  } else if (hundredths % 100 == 0) {
    phrase = same(cardinal_en(whole) + " million", cardinal_de(whole) + " Millionen");
  } else {
    phrase = same(decimal_words_en(hundredths) + " million", decimal_words_de(hundredths) + " Millionen");
  }
  phrase.en += ' ' + std::string(noun.en_plural);
  for (std::string& form : phrase.de) form += ' ' + std::string(noun.de_plural);
  return phrase;
}

Phrase calendar(int month, int day, int style, bool digits) {
  const std::string en(kMonths[month - 1].en), de(kMonths[month - 1].de);
  Phrase phrase;
  if (digits) {
    phrase = same(style == 0   ? fmt::format("{} {}", day, en)
                  : style == 1 ? fmt::format("{} {}", en, day)
                               : fmt::format("{} {}", en, ordinal_digits_en(day)),
                  fmt::format("{}. {}", day, de));
  } else {
    phrase = same(fmt::format("the {} of {}", ordinal_en(day), en), fmt::format("{}en {}", ordinal_stem_de(day), de));
    phrase.de[kNominative] = fmt::format("{}e {}", ordinal_stem_de(day), de);
  }
  phrase.order = month * 100 + day;
  return phrase;
}

}  // namespace nmt::numbers
