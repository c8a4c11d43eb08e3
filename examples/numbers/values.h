#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nmt::numbers {

// The values that an English sentence of the corpus speaks of, whichever way they are written, in order:
//   "347", "12.5", "-8"       a number: three hundred and forty-seven, 347, 347th, room 347, the year 347
//   "2 kilograms", "room 7"   a number of one word (0 to 20, the tens, halves up to 10.5, millions up to 20) with the
//                             word that it belongs to: such numbers alone are vocabulary, only pairs can be held out
//   "3:45"                    a time, of the twelve hours of the clock
//   "5-21"                    a date, month and day; its year is a number
std::vector<std::string> values(std::string_view english);

enum class Part { kTrain, kDev, kTest };

// By a fixed hash of the value, the same for every seed: 1/16 dev, 1/16 test, the rest training. One of a thing
// ("1 mile") is always training, for nothing else shows the singular of its word.
Part part_of(std::string_view value);

}  // namespace nmt::numbers
