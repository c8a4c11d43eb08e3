#include "decode/cache_rows.h"

#include <map>
#include <set>

#include "base/philox.h"
#include "tests/catch.h"

using namespace nmt;

TEST_CASE("every hypothesis finds its own past in the cache") {
  Random random(3);
  CacheRows rows;
  for (int sentence = 0; sentence < 3; ++sentence) {
    rows.clear();
    std::map<int32_t, std::string> cache;  // what a model would have written, by cache row
    std::vector<std::string> texts = {"", "", "", "", ""};
    size_t longest_use = 0;
    for (int step = 0; step < 60; ++step) {
      // Some hypotheses die, others go on twice; now and then there are fewer.
      const size_t count = step == 0 ? texts.size() : 1 + random.below(step < 40 ? 8 : 2);
      std::vector<int32_t> parents;
      std::vector<std::string> next;
      for (size_t r = 0; r < count; ++r) {
        parents.push_back(step == 0 ? 0 : static_cast<int32_t>(random.below(texts.size())));
        next.push_back(texts[static_cast<size_t>(parents.back())] + static_cast<char>('a' + random.below(26)));
      }
      rows.advance(parents);
      texts = next;
      REQUIRE(rows.slot().size() == count);
      REQUIRE(rows.length() == step + 1);
      for (size_t r = 0; r < count; ++r) {
        REQUIRE(rows.slot()[r] < rows.capacity());
        cache[rows.slot()[r]] = texts[r].substr(texts[r].size() - 1);
      }
      CHECK(std::set<int32_t>(rows.slot().begin(), rows.slot().end()).size() == count);
      std::set<int32_t> used;
      const size_t stride = rows.entry().size() / count;
      REQUIRE(stride >= static_cast<size_t>(rows.length()));
      for (size_t r = 0; r < count; ++r) {
        std::string text;
        for (size_t i = 0; i < static_cast<size_t>(rows.lengths()[r]); ++i) {
          text += cache.at(rows.entry()[r * stride + i]);
          used.insert(rows.entry()[r * stride + i]);
        }
        CHECK(text == texts[r]);
      }
      longest_use = std::max(longest_use, used.size());
    }
    CHECK(static_cast<size_t>(rows.capacity()) <= 2 * longest_use + 8);
  }
}
