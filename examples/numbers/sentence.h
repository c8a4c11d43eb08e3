#pragma once

#include <optional>
#include <string>

#include "base/philox.h"
#include "carriers.h"

namespace nmt::numbers {

struct Pair {
  std::string en, de;
};

// Fills the slots of a carrier. The German follows from the English: whatever is drawn shows in the English text.
// Nothing where the draw does not fit (the second time would have to be later than the last minute of the day, say).
// Throws std::logic_error where the carrier itself is wrong (unknown slot, German slot that the English lacks).
std::optional<Pair> write_sentence(const Carrier& carrier, Random& random);

}  // namespace nmt::numbers
