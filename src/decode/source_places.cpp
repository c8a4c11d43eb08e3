#include "decode/source_places.h"

#include <algorithm>

namespace nmt {

int32_t SourcePlaces::take(int32_t sentence, int32_t length) {
  const auto fits = [&](const Place& p) { return p.sentence < 0 && p.length >= length; };
  const auto found = std::ranges::find_if(places_, fits);
  if (found == places_.end()) {
    places_.push_back({static_cast<int32_t>(rows()), length, sentence});
    return places_.back().begin;
  }
  const int32_t begin = found->begin, rest = found->length - length;
  *found = {begin, length, sentence};
  if (rest > 0) places_.insert(found + 1, {begin + length, rest, -1});
  return begin;
}

void SourcePlaces::free(int32_t sentence) {
  auto place = std::ranges::find(places_, sentence, &Place::sentence);
  place->sentence = -1;
  if (const auto next = place + 1; next != places_.end() && next->sentence < 0) {
    place->length += next->length;
    places_.erase(next);
  }
  if (place != places_.begin() && (place - 1)->sentence < 0) {
    (place - 1)->length += place->length;
    places_.erase(place);
  }
}

}  // namespace nmt
