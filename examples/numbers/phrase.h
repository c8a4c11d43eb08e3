#pragma once

#include <cstdint>
#include <string>

#include "lexicon.h"

// Numbers with what they count, in English and in every German case. No chance here: the drawing is in slots.h.
namespace nmt::numbers {

enum Case { kNominative, kAccusative, kDative };

struct Phrase {
  std::string en, de[3];  // by case; empty where a phrase has no such form
  int64_t id = -1;        // a second phrase of the same kind in a sentence has another id
  int64_t order = -1;     // or stands later in this order
  bool plural = true;     // of the noun
  bool count = false;     // the verb of the sentence may agree with it
};

Phrase same(std::string en, const std::string& de);  // one form for all cases

// `digits`: whether the number is written in digits or in words.
Phrase counted(int64_t n, const Noun& noun, bool digits, const Adjective* adjective = nullptr);  // two red apples
Phrase bare(int64_t n, bool digits);

// 2.5 is spoken "two and a half", "zweieinhalb" up to ten and a half; other decimals by their digits.
Phrase decimal(int64_t hundredths, const Noun& noun, bool digits);

// A multiple of a hundred thousand: 150 is 1.5 million.
Phrase millions(int64_t hundredths, const Noun& noun, bool digits);

// Euros or dollars; with `symbol` and digits "€12.50", else "12.50 euros" or "twelve euros and fifty cents".
Phrase money(int64_t cents, const Noun& currency, bool digits, bool symbol);

// Without the article; in digits style 0 is "21 May", 1 is "May 21", 2 is "May 21st".
Phrase calendar(int month, int day, int style, bool digits);

}  // namespace nmt::numbers
