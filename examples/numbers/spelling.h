#pragma once

#include <cstdint>
#include <string>

// Numbers and times written out in English and German; pure functions, no grammar of the sentence around them.
namespace nmt::numbers {

// 0 <= n < 1,000,000,000. English with "and" ("one hundred and twenty-one"); German before no noun ("einhunderteins").
std::string cardinal_en(int64_t n);
std::string cardinal_de(int64_t n);

// The number as the first part of a compound: "einundzwanzig", but "ein" and "einhundertein" ("einmal", "ein Uhr").
std::string cardinal_de_prefix(int64_t n);

// Ordinals, 1 <= n < 1000: "twenty-first", "21st"; the German stem without ending: "einundzwanzigst".
std::string ordinal_en(int64_t n);
std::string ordinal_digits_en(int64_t n);
std::string ordinal_stem_de(int64_t n);

// Decimals are given in hundredths: 1250 is 12.50; `places` (0 to 2) digits are written after the point.
std::string decimal_words_en(int64_t hundredths);  // "twelve point five", trailing zeros dropped
std::string decimal_words_de(int64_t hundredths);  // "zwölf Komma fünf"
std::string grouped(int64_t n, char group);        // grouped(1250, '.') is "1.250"
std::string decimal_digits(int64_t hundredths, int places, char group, char point);

// "nineteen eighty-seven", "eighteen oh five", "nineteen hundred", "two thousand and five", "twenty fifteen";
// 1300 <= year < 2100.
std::string year_en(int year);

// Times of the day in minutes after midnight. The spoken form is "half past three"/"halb vier" for multiples of five,
// and "three o'clock"/"drei Uhr" for full hours; the plain one "three seventeen"/"drei Uhr siebzehn".
std::string spoken_time_en(int minutes);
std::string spoken_time_de(int minutes);
std::string plain_time_en(int minutes);
std::string plain_time_de(int minutes);
std::string digital_time_en(int minutes);  // "3:45 pm"
std::string digital_time_de(int minutes);  // "15:45 Uhr"

}  // namespace nmt::numbers
