#include "decode/cache_rows.h"

#include <map>
#include <set>

#include "base/philox.h"
#include "decode/source_places.h"
#include "tests/catch.h"

using namespace nmt;

TEST_CASE("every hypothesis finds its own past in the cache") {
  Random random(3);
  CacheRows rows;
  std::map<int32_t, std::string> cache;  // what a model would have written, by cache row
  std::vector<std::string> texts;
  size_t longest_use = 0;
  for (int step = 0; step < 200; ++step) {
    // Some hypotheses die, others go on twice, new ones begin; now and then there are fewer, once none.
    const size_t count = step == 150 ? 0 : 1 + random.below(step % 50 < 40 ? 8 : 2);
    std::vector<int32_t> parents;
    std::vector<std::string> next;
    for (size_t r = 0; r < count; ++r) {
      const bool begins = texts.empty() || random.below(10) == 0;
      parents.push_back(begins ? -1 : static_cast<int32_t>(random.below(texts.size())));
      next.push_back((begins ? "" : texts[static_cast<size_t>(parents.back())]) +
                     static_cast<char>('a' + random.below(26)));
    }
    rows.advance(parents);
    texts = next;
    REQUIRE(rows.slot().size() == count);
    for (size_t r = 0; r < count; ++r) {
      REQUIRE(rows.slot()[r] < rows.capacity());
      cache[rows.slot()[r]] = texts[r].substr(texts[r].size() - 1);
    }
    CHECK(std::set<int32_t>(rows.slot().begin(), rows.slot().end()).size() == count);
    std::set<int32_t> used;
    for (size_t r = 0; r < count; ++r) {
      const size_t stride = rows.entry().size() / count;
      REQUIRE(stride >= static_cast<size_t>(rows.lengths()[r]));
      std::string text;
      for (size_t i = 0; i < static_cast<size_t>(rows.lengths()[r]); ++i) {
        text += cache.at(rows.entry()[r * stride + i]);
        used.insert(rows.entry()[r * stride + i]);
      }
      CHECK(text == texts[r]);
    }
    longest_use = std::max(longest_use, used.size());
  }
  CHECK(static_cast<size_t>(rows.capacity()) <= 2 * longest_use + 64);
}

TEST_CASE("sentences have source rows of their own, and those of finished ones are used again") {
  Random random(4);
  SourcePlaces places;
  std::map<int32_t, std::pair<int32_t, int32_t>> taken;  // sentence: first row, rows
  int32_t in_use = 0, most = 0;
  for (int32_t sentence = 0; sentence < 500; ++sentence) {
    while (!taken.empty() && (taken.size() > 12 || random.below(3) == 0)) {
      const auto it = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random.below(taken.size())));
      places.free(it->first);
      in_use -= it->second.second;
      taken.erase(it);
    }
    const auto length = static_cast<int32_t>(1 + random.below(20));
    taken[sentence] = {places.take(sentence, length), length};
    in_use += length;
    most = std::max(most, in_use);
    int64_t end = 0;
    size_t found = 0;
    for (const auto& place : places.places()) {
      CHECK(place.begin == end);  // no gaps
      CHECK(place.length > 0);
      end += place.length;
      if (place.sentence < 0) continue;
      ++found;
      CHECK(taken.at(place.sentence) == std::pair(place.begin, place.length));
    }
    CHECK(found == taken.size());
    CHECK(places.rows() == end);
  }
  CHECK(places.rows() <= 3 * most);
  for (const auto& [sentence, rows] : taken) places.free(sentence);
  CHECK(places.places().size() == 1);  // free rows side by side are one place
}
