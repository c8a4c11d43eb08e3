#include "decode/shortlist.h"

#include <fstream>
#include <numeric>
#include <set>

#include "base/files.h"
#include "base/philox.h"
#include "decode/shortlist_trainer.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

using Ids = std::vector<int32_t>;

// <unk> is 0, </s> is 1.
std::shared_ptr<const Vocab> words(const std::string& language, int size) {
  std::string bytes = fmt::format("#nmt-words 1 words={} merges=0 join=0 lowercase=0 attached=0\n<unk>\n</s>\n", size);
  for (int i = 2; i < size; ++i) bytes += fmt::format("{}{}\n", language, i);
  return Vocab::from_bytes(bytes, language);
}

struct Pairs {
  void add(const Ids& source, const Ids& target) {
    std::vector<uint8_t> record;
    SentenceStore::encode(source, record);
    SentenceStore::encode(target, record);
    store.append(record, {static_cast<int32_t>(source.size()), static_cast<int32_t>(target.size())});
  }
  SentenceStore store{1 << 20, ""};
};

Ids likely(const Shortlist& shortlist, int32_t id) {
  const auto list = shortlist.likely(id);
  return {list.begin(), list.end()};
}

Ids frequent(const Shortlist& shortlist) { return {shortlist.frequent().begin(), shortlist.frequent().end()}; }

std::string complaint(const std::string& path, const Vocab& source, const Vocab& target) {
  const std::string text = complaint_of([&] { Shortlist::load(path, source, target); });
  REQUIRE(text.find('\n') == std::string::npos);
  REQUIRE((text.empty() || text.starts_with(path)));
  return text.empty() ? text : text.substr(path.size());
}

}  // namespace

TEST_CASE("EM finds the dictionary of a few sentences") {
  const auto source = words("s", 6), target = words("t", 6);
  constexpr int32_t das = 2, Haus = 3, Buch = 4, ein = 5, the = 3, house = 5, book = 2, a = 4;
  Pairs pairs;
  pairs.add({das, Haus}, {the, house});
  pairs.add({das, Buch}, {the, book});
  pairs.add({ein, Buch}, {a, book});
  pairs.store.finish();
  ThreadPool pool(1);
  ShortlistTraining settings{.best = 1, .frequent = 0, .iterations = 10};
  const auto shortlist = train_shortlist(pairs.store, *source, *target, settings, pool);
  CHECK(likely(shortlist, das) == Ids{the});
  CHECK(likely(shortlist, Haus) == Ids{house});
  CHECK(likely(shortlist, Buch) == Ids{book});
  CHECK(likely(shortlist, ein) == Ids{a});
  CHECK(likely(shortlist, 0).empty());
  CHECK(frequent(shortlist) == Ids{0, 1});
  CHECK(shortlist.candidates(Ids{ein, Haus, 1}) == Ids{0, 1, a, house});
  const auto fit = measure_fit(shortlist, pairs.store, pool);
  CHECK(fit.text() == "100.000% of 6 target tokens are candidates, of which a sentence has 4.0");

  // Before EM tells them apart, all that occur together are likely.
  settings = {.best = 3, .frequent = 0, .iterations = 1};
  const auto first = train_shortlist(pairs.store, *source, *target, settings, pool);
  CHECK(likely(first, das) == Ids{book, the, house});
  CHECK(likely(first, ein) == Ids{book, a});
  // In the end hardly anything else is, and it is left out though there is room.
  settings.iterations = 40;
  const auto last = train_shortlist(pairs.store, *source, *target, settings, pool);
  CHECK(likely(last, das) == Ids{the});
  CHECK(likely(last, Buch) == Ids{book});
  // `the` and `book` are in two sentences each; of equals the one with the lower id counts more.
  settings = {.best = 3, .frequent = 1, .iterations = 1};
  const auto second = train_shortlist(pairs.store, *source, *target, settings, pool);
  CHECK(frequent(second) == Ids{0, 1, book});
  CHECK(likely(second, ein) == Ids{a});
}

TEST_CASE("A dictionary is found in any order, with words that have no source, by any number of threads") {
  constexpr int kWords = 400;
  constexpr int32_t kArticle = 2;  // in every target sentence
  const auto source = words("s", kWords), target = words("t", kWords);
  Random random(5);
  Ids dictionary(kWords);
  std::iota(dictionary.begin(), dictionary.end(), 0);
  for (size_t i = kWords - 1; i > 3; --i) std::swap(dictionary[i], dictionary[3 + random.below(i - 2)]);
  Pairs pairs;
  for (int i = 0; i < 4000; ++i) {
    Ids from, to{kArticle};
    for (uint64_t n = 2 + random.below(8); n > 0; --n) from.push_back(static_cast<int32_t>(3 + random.below(397)));
    for (const int32_t id : from) to.push_back(dictionary[static_cast<size_t>(id)]);
    random.shuffle(to);
    pairs.add(from, to);
  }
  pairs.store.finish();
  ThreadPool one(1), three(3);
  const ShortlistTraining settings{.best = 1, .frequent = 1, .iterations = 5};
  const auto shortlist = train_shortlist(pairs.store, *source, *target, settings, three);
  for (int32_t id = 3; id < kWords; ++id) CHECK(likely(shortlist, id) == Ids{dictionary[static_cast<size_t>(id)]});
  CHECK(frequent(shortlist) == Ids{0, 1, kArticle});

  const ShortlistTraining wide{.best = 20, .frequent = 5, .iterations = 3};
  const auto a = train_shortlist(pairs.store, *source, *target, wide, one);
  const auto b = train_shortlist(pairs.store, *source, *target, wide, three);
  CHECK(frequent(a) == frequent(b));
  for (int32_t id = 0; id < kWords; ++id) {
    CHECK(likely(a, id) == likely(b, id));
    CHECK(a.likely(id).size() <= 20);
    CHECK(std::ranges::is_sorted(a.likely(id)));
  }
}

TEST_CASE("All of many pairs are learned from") {
  const auto source = words("s", 5), target = words("t", 5);
  Pairs pairs;
  for (int i = 0; i < 1 << 16; ++i) pairs.add({2}, {3});  // as many as are read at a time
  pairs.add({4}, {2});
  pairs.add({2}, {4});  // too seldom: left out
  pairs.store.finish();
  ThreadPool pool(2);
  const auto shortlist = train_shortlist(pairs.store, *source, *target, {.frequent = 0}, pool);
  CHECK(likely(shortlist, 2) == Ids{3});
  CHECK(likely(shortlist, 4) == Ids{2});
}

TEST_CASE("Tokens have their lists, however many pairs of tokens there may be") {
  constexpr int32_t kSource = 1200, kTarget = 1 << 16;  // counts of 1024 source tokens are held at a time
  const auto source = words("s", kSource), target = words("t", kTarget);
  Pairs pairs;
  const auto translation = [](int32_t id) { return kTarget - 7 * id; };
  Ids many(kTargetsKept);  // in place of which no others would be kept, were their counts not of one block alone
  std::iota(many.begin(), many.end(), 2);
  pairs.add({3}, many);
  for (int32_t id = 4; id < kSource; ++id) pairs.add({id}, {translation(id)});
  pairs.store.finish();
  ThreadPool pool(2);
  const auto shortlist = train_shortlist(pairs.store, *source, *target, {.frequent = 0, .iterations = 1}, pool);
  CHECK(likely(shortlist, 2).empty());
  int wrong = 0;
  for (int32_t id = 4; id < kSource; ++id) wrong += likely(shortlist, id) != Ids{translation(id)};
  CHECK(wrong == 0);
}

TEST_CASE("Candidates are the union of the lists") {
  constexpr int kSource = 70, kTarget = 1000;
  Random random(6);
  std::vector<std::set<int32_t>> lists(kSource + 1);  // the last one is always there
  for (auto& list : lists)
    for (uint64_t n = random.below(30); n > 0; --n) list.insert(static_cast<int32_t>(random.below(kTarget)));
  lists.back().insert(1);
  Ids begin{0}, ids;
  for (size_t i = 0; i < kSource; ++i) {
    ids.insert(ids.end(), lists[i].begin(), lists[i].end());
    begin.push_back(static_cast<int32_t>(ids.size()));
  }
  const Ids always(lists.back().begin(), lists.back().end());
  const auto source = words("s", kSource), target = words("t", kTarget);
  const Shortlist shortlist(*source, *target, begin, ids, always);
  CHECK(shortlist.candidates({}) == always);
  for (int round = 0; round < 200; ++round) {
    Ids sentences;
    for (uint64_t n = random.below(40); n > 0; --n) sentences.push_back(static_cast<int32_t>(random.below(kSource)));
    std::set<int32_t> expected = lists.back();
    for (const int32_t id : sentences)
      expected.insert(lists[static_cast<size_t>(id)].begin(), lists[static_cast<size_t>(id)].end());
    CHECK(shortlist.candidates(sentences) == Ids(expected.begin(), expected.end()));
  }
  CHECK_THROWS_AS(shortlist.candidates(Ids{kSource}), std::logic_error);
  CHECK_THROWS_AS(shortlist.candidates(Ids{-1}), std::logic_error);

  SECTION("of one vocabulary, each token is a candidate for itself") {
    const Shortlist shared(*source, *source, Ids(kSource + 1, 0), {}, {1});
    CHECK(shared.candidates(Ids{69, 5, 1, 64}) == Ids{1, 5, 64, 69});
  }
}

TEST_CASE("A shortlist is read as it was written, for its own vocabularies") {
  TempFolder folder;
  const std::string path = folder / "shortlist";
  const auto source = words("s", 4), target = words("t", 70), other = words("o", 4);
  const Shortlist written(*source, *target, {0, 0, 0, 3, 3}, {2, 5, 69}, {0, 1, 7});
  SafetensorsWriter file(path);
  written.save(file);
  const auto read = Shortlist::load(path, *source, *target);
  CHECK(likely(read, 2) == Ids{2, 5, 69});
  CHECK(likely(read, 3).empty());
  CHECK(read.candidates(Ids{2, 3}) == Ids{0, 1, 2, 5, 7, 69});
  CHECK(complaint(path, *other, *target) ==
        " was made for another source vocabulary; make one for this vocabulary with nmt-vocab shortlist");
  CHECK(complaint(path, *source, *source) ==
        " was made for another target vocabulary; make one for this vocabulary with nmt-vocab shortlist");
}

TEST_CASE("What is no shortlist is refused in one line") {
  TempFolder folder;
  const std::string path = folder / "f";
  const auto source = words("s", 4), target = words("t", 10);
  const auto of = [&](const Ids& begin, const Ids& ids, const Ids& frequent) {
    SafetensorsWriter file(path);
    Shortlist(*source, *target, begin, ids, frequent).save(file);
    return complaint(path, *source, *target);
  };
  REQUIRE(of({0, 0, 0, 2, 3}, {2, 9, 0}, {0, 1}).empty());
  const std::string good = read_file(path), begin_wrong = " is damaged: tensor begin does not rise from 0 to 3, ",
                    list_wrong = " is damaged: the list of source token 2 is no rising ids";
  SECTION("offsets") {
    CHECK(of({0, 0, 0, 3}, {2, 9, 0}, {0, 1}) == ": tensor begin has 4 numbers, 5 are expected");
    CHECK(of({}, {2, 9, 0}, {0, 1}) == ": tensor begin has 0 numbers, 5 are expected");
    CHECK(of({0, 0, 0, 2, 3, 3}, {2, 9, 0}, {0, 1}) == ": tensor begin has 6 numbers, 5 are expected");
    for (const Ids& begin : {Ids{1, 1, 1, 2, 3}, {0, 0, 0, 2, 2}, {0, 0, 0, 2, 4}, {0, 0, 4, 2, 3}, {0, -1, 0, 2, 3}})
      CHECK(of(begin, {2, 9, 0}, {0, 1}) == begin_wrong + "the number of ids");
  }
  SECTION("ids") {
    CHECK(of({0, 0, 0, 2, 3}, {2, 10, 0}, {0, 1}) == list_wrong);
    CHECK(of({0, 0, 0, 2, 3}, {-1, 2, 0}, {0, 1}) == list_wrong);
    CHECK(of({0, 0, 0, 2, 3}, {9, 2, 0}, {0, 1}) == list_wrong);
    CHECK(of({0, 0, 0, 2, 3}, {2, 2, 0}, {0, 1}) == list_wrong);
    CHECK(of({0, 0, 0, 0, 0}, {}, {1, 10}) == " is damaged: tensor frequent is no rising ids");
    CHECK(of({0, 0, 0, 0, 0}, {}, {0, 2}) == " is damaged: tensor frequent lacks the end of sentence");
    CHECK(of({0, 0, 0, 0, 0}, {}, {}) == " is damaged: tensor frequent lacks the end of sentence");
  }
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  const auto replaced = [&](std::string_view what, std::string_view by) {
    std::string bytes = good;
    bytes.replace(bytes.find(what), what.size(), by);
    write(bytes);
    return complaint(path, *source, *target);
  };
  SECTION("metadata and types") {
    CHECK(replaced("nmt.shortlist", "nmt.blacklist") == " is not a shortlist: its metadata has no nmt.shortlist");
    CHECK(replaced("nmt.vocab.source", "nmt.vocab.Source") ==
          " is not a shortlist: its metadata has no nmt.vocab.source");
    CHECK(replaced(R"("nmt.shortlist":"1")", R"("nmt.shortlist":"2")") ==
          ": the shortlist has format 2, this program reads 1");
    CHECK(replaced(R"("ids")", R"("idz")") == ": tensor ids is missing");
    CHECK(replaced("I32", "F32") == ": tensor begin is not a list of i32");
    CHECK(replaced("[5]", "[6]").starts_with(": not a valid safetensors file: "));
  }
  SECTION("every cut, and more than the whole") {
    for (size_t size = 0; size < good.size(); ++size) {
      write(good.substr(0, size));
      CHECK(complaint(path, *source, *target).starts_with(": not a valid safetensors file: cut off"));
    }
    write(good + "0");
    CHECK(complaint(path, *source, *target) == ": not a valid safetensors file: 1 bytes after the last tensor");
  }
  SECTION("whatever is changed, a file that is read can be used") {
    Random random(9);
    int read = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = good;
      const size_t data = bytes.size() - 40;  // where most of the tensors are
      for (uint64_t n = 1 + random.below(2); n > 0; --n) {
        const size_t at = random.below(4) == 0 ? random.below(bytes.size()) : data + random.below(40);
        bytes[at] = static_cast<char>(random.below(2) == 0 ? random.below(12) : random.below(256));
      }
      write(bytes);
      if (!complaint(path, *source, *target).empty()) continue;
      const auto candidates = Shortlist::load(path, *source, *target).candidates(Ids{0, 1, 2, 3});
      CHECK(std::ranges::is_sorted(candidates));
      CHECK((candidates.front() >= 0 && candidates.back() < target->size()));
      ++read;
    }
    CHECK(read > 10);
    CHECK(read < 2900);
  }
}
