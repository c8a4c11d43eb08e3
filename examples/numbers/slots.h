#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "phrase.h"

namespace nmt::numbers {

// Draws what fills the slots of one sentence: all its numbers are written in words, or all in digits.
class Slots {
 public:
  explicit Slots(Random& random);

  // A phrase for a kind of slot ("person", "price" ...). Throws std::logic_error for an unknown kind.
  Phrase draw(std::string_view kind);

 private:
  using Draw = Phrase (*)(Slots&);
  static const std::map<std::string_view, Draw>& kinds();

  bool chance(double probability) { return random_.uniform() < probability; }
  int64_t between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(random_.below(static_cast<uint64_t>(high - low + 1)));
  }
  int64_t spread(int64_t low, int64_t high);
  int64_t countable(int64_t low, int64_t high);

  template <class T, size_t N>
  const T& pick(const T (&list)[N], int64_t* id = nullptr) {
    const int64_t at = between(0, N - 1);
    if (id) *id = at;
    return list[at];
  }
  template <size_t N>
  Phrase fixed(const Fixed (&list)[N]) {
    int64_t id;
    const Fixed& entry = pick(list, &id);
    Phrase phrase = same(std::string(entry.en), std::string(entry.de));
    phrase.id = id;
    return phrase;
  }

  Phrase measure(const Noun& noun, int64_t low, int64_t high, bool tenths);
  Phrase measure(const Unit& unit, bool tenths) { return measure(unit.noun, unit.low, unit.high, tenths); }
  Phrase approximate(Phrase phrase, int64_t n);
  Phrase several(const Noun& noun, int64_t low, int64_t high);
  Phrase goods(int64_t low);
  Phrase person();
  Phrase item();
  Phrase price();
  Phrase in_millions(const Noun& noun);
  Phrase amount();
  Phrase degrees();
  Phrase times();
  Phrase time();
  Phrase date();
  Phrase full_date();
  Phrase year(int64_t first);
  Phrase name(int64_t n) const;
  Phrase ordinal(int64_t n) const;
  Phrase aged(int64_t n) const;
  Phrase term(int64_t n);

  Random& random_;
  const bool digits_, symbol_;
  const Noun& currency_;
  char gender_ = 0;             // of the first person
  std::vector<int64_t> terms_;  // of a calculation
};

}  // namespace nmt::numbers
