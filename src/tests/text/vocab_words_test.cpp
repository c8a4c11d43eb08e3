#include "text/vocab_words.h"

#include <set>

#include "tests/text/vocab_fixture.h"
#include "text/training_lines.h"

using namespace nmt;
using nmt::testing::complaint_of;

TEST_CASE("words: white space separates, counts decide, ties go by bytes") {
  TempFolder folder;
  write_lines(folder / "t", {"b a  a\tc", "", " c b a ", "d \u00a0d e\u0085f", "</s> <unk> </s>"});
  auto settings = training("words", 6, {folder / "t"});
  const auto vocab = train_vocab(settings).vocab;
  CHECK(vocab->bytes() ==
        "#nmt-words 1 words=6 merges=0 join=0 lowercase=0 attached=1\n<unk>\n</s>\na\t3\nb\t2\nc\t2\nd\t1\n");
  CHECK(vocab->type() == "words");
  CHECK(vocab->encode("c d  nowhere\ta") == ids({4, 5, 0, 2}));
  CHECK(vocab->encode("</s> <unk>") == ids({0, 0}));  // text never makes the end of a sentence
  CHECK(vocab->encode(" \t").empty());
  CHECK(vocab->decode(ids({2, 3, 0, 1, 1})) == "a b <unk>");
  CHECK(vocab->find("c") == 4);
  CHECK(vocab->find("e") == -1);
  CHECK(complaint_of([&] { vocab->decode(ids({2, 6})); }) == "piece id 6 is outside the vocabulary (0 to 5)");
  CHECK(complaint_of([&] { vocab->piece(-1); }) == "piece id -1 is outside the vocabulary (0 to 5)");
  settings.min_count = 2;
  CHECK(train_vocab(settings).vocab->size() == 5);
}

TEST_CASE("words: a file's header tells its kind, whatever its words are") {
  const auto vocab = Vocab::from_bytes(
      "#nmt-words 1 words=4 merges=0 join=0 lowercase=0 attached=1\n<unk>\n</s>\n[UNK]\n[SEP]\n", "v");
  CHECK(vocab->type() == "words");
  CHECK(vocab->encode("[UNK] other") == ids({2, 0}));
}

TEST_CASE("files of the same bytes are one vocabulary for both sides") {
  const TempFolder folder;
  const std::string header = "#nmt-words 1 words=3 merges=0 join=0 lowercase=0 attached=1";
  write_lines(folder / "a", {header, "<unk>", "</s>", "a"});
  write_lines(folder / "same", {header, "<unk>", "</s>", "a"});
  write_lines(folder / "b", {header, "<unk>", "</s>", "b"});
  for (const char* target : {"a", "same", "b"}) {
    const auto [source, other] = Vocab::load_sides({folder / "a", folder / target});
    CHECK((source == other) == (std::string_view(target) != "b"));
  }
  const auto [source, target] = Vocab::load_sides({folder / "b"});
  CHECK(source == target);
}

TEST_CASE("words: lower case by Unicode, in training and encoding") {
  TempFolder folder;
  write_lines(folder / "t", {"ÄRGER Straße ärger"});
  auto settings = training("words", 100, {folder / "t"});
  settings.lowercase = true;
  const auto vocab = train_vocab(settings).vocab;
  CHECK(vocab->piece(2) == "ärger");
  CHECK(vocab->decode(vocab->encode("Ärger  STRAßE")) == "ärger straße");
}

TEST_CASE("join_bpe undoes the splitting") {
  CHECK(join_bpe("ein@@ e kleine") == "eine kleine");
  CHECK(join_bpe("a@@ b@@ c d@@") == "abc d");
  CHECK(join_bpe("@@ @@ x @@") == "x");
  CHECK(join_bpe("a@b c@ d") == "a@b c@ d");
  CHECK(join_bpe("") == "");
}

TEST_CASE("words: join is a property of the vocabulary") {
  TempFolder folder;
  write_lines(folder / "t", {"ein@@ e kleine"});
  auto settings = training("words", 100, {folder / "t"});
  const auto plain = train_vocab(settings).vocab;
  settings.join_bpe = true;
  const auto joining = train_vocab(settings).vocab;
  const auto pieces = joining->encode("ein@@ e kleine");
  CHECK(plain->decode(pieces) == "ein@@ e kleine");
  CHECK(joining->decode(pieces) == "eine kleine");
}

TEST_CASE("merges are applied in the order in which they were learned") {
  // "low" + "er": l o w e r</w>; (e, r</w>) before (l, o) before (lo, w); (w, e) comes too late to be used.
  const BpeMerges merges({{"e", "r</w>"}, {"l", "o"}, {"lo", "w"}, {"w", "e"}, {"l", "o"}}, true);
  CHECK(merges.split("lower") == std::vector<std::string>{"low@@", "er"});
  CHECK(merges.split("wet") == std::vector<std::string>{"we@@", "t"});
  CHECK(merges.split("er") == std::vector<std::string>{"er"});
  CHECK(merges.split("é") == std::vector<std::string>{"é"});
  CHECK(merges.split("").empty());
  // A run of equal symbols is merged from the left.
  CHECK(BpeMerges({{"a", "a"}}, true).split("aaaa") == std::vector<std::string>{"aa@@", "a@@", "a"});
  // All of a rank are merged before what that makes possible is looked at, even at a lower rank.
  const BpeMerges late({{"xy", "x"}, {"x", "y"}}, true);
  CHECK(late.split("xyxyz") == std::vector<std::string>{"xy@@", "xy@@", "z"});
  // Version 0.1: the end of a word is a symbol of its own.
  const BpeMerges separate({{"a", "b"}, {"ab", "</w>"}}, false);
  CHECK(separate.split("ab") == std::vector<std::string>{"ab"});
  CHECK(separate.split("aba") == std::vector<std::string>{"ab@@", "a"});
}

TEST_CASE("words: a vocabulary with merges encodes raw and split text alike") {
  TempFolder folder;
  write_lines(folder / "t", {"lower wetter low"});
  write_lines(folder / "code", {"#version: 0.2", "e r</w>", "l o", "lo w", "w e"});
  auto settings = training("words", 100, {folder / "t"});
  settings.merges = folder / "code";
  const auto trained = train_vocab(settings);
  const auto vocab = Vocab::from_bytes(trained.vocab->bytes(), "copy");  // the file alone is enough
  CHECK(vocab->encode("lower wetter") == vocab->encode("low@@ er we@@ t@@ t@@ er"));
  CHECK(vocab->encode("lower").size() == 2);
  CHECK(vocab->decode(vocab->encode("lower  wetter low")) == "lower wetter low");
  CHECK(measure_fit(*vocab, trained.words, 3).text() ==
        "coverage 100.000% of 3 words, 2.6667 pieces a word, 0.000% of them unknown");
}

TEST_CASE("merges files that are none are refused with file and line") {
  TempFolder folder;
  const std::string path = folder / "code";
  const auto load = [&](const std::vector<std::string>& lines) {
    write_lines(path, lines);
    return complaint_of([&] { BpeMerges::load(path); });
  };
  CHECK(load({"#version: 0.3", "a b"}) == path + ":1: unknown version of a merges file (0.1 and 0.2 are known)");
  CHECK(load({"#version: 0.2", "a b", "a b c"}) ==
        path + ":3: expected a merge `left right` of subword-nmt, found 3 parts");
  CHECK(load({"#version: 0.2", "a b", "", " ", "c d", ""}) ==
        path + ":3: expected a merge `left right` of subword-nmt, found 0 parts");
  CHECK(load({"#version: 0.2", "a b", "", " "}).empty());
  CHECK(load({"#version: 0.2", "a \xff"}) == path + ":2: not valid UTF-8");
  CHECK(load({"#version: 0.2"}) == path + " holds no merges");
}

TEST_CASE("a sample of the training text is uniform, in order and the same for a seed") {
  TempFolder folder;
  std::vector<std::string> first, second;
  for (int i = 0; i < 600; ++i) (i < 200 ? first : second).push_back(fmt::format("{:03}", i));
  write_lines(folder / "1", first);
  write_lines(folder / "2", second);
  std::vector<int> drawn(600);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<std::string> sample;
    TrainingLines lines({folder / "1", folder / "2"}, 60, seed), again({folder / "1", folder / "2"}, 60, seed);
    std::string line, same;
    while (lines.next(line)) {
      REQUIRE(again.next(same));
      REQUIRE(line == same);
      sample.push_back(line);
      ++drawn[static_cast<size_t>(std::stoi(line))];
    }
    REQUIRE(sample.size() == 60);
    REQUIRE(std::ranges::is_sorted(sample));
  }
  // Each line is drawn 30 times on average with a standard deviation of 5.2.
  for (const int count : drawn) CHECK(std::abs(count - 30) < 5 * 5.2);
  write_lines(folder / "1", {"a", "b"});
  std::set<std::string> either;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    std::string line;
    REQUIRE(TrainingLines({folder / "1"}, 1, seed).next(line));
    either.insert(line);
  }
  CHECK(either.size() == 2);
}

TEST_CASE("malformed training text is repaired") {
  TempFolder folder;
  write_lines(folder / "t", {"gut",
                             "b\xff"
                             "d",
                             std::string("n\0l", 3), "e\u0085f"});
  TrainingLines lines({folder / "t"}, 0, 1);
  std::vector<std::string> got;
  for (std::string line; lines.next(line);) got.push_back(line);
  CHECK(got == std::vector<std::string>{"gut", "b\uFFFDd", "n\uFFFDl", "e\u0085f"});
  CHECK(complaint_of([&] { TrainingLines({folder / "t", folder / "nowhere"}, 0, 1); }).starts_with("cannot read "));
}

TEST_CASE("words: pieces belong to words") {
  const std::string words = "\n<unk>\n</s>\na@@\nb@@\nc\n@@\n";
  const auto joined = Vocab::from_bytes("#nmt-words 1 words=6 merges=0 join=1 lowercase=0 attached=0" + words, "v");
  CHECK(joined->words_of(ids({2, 3, 4, 4, 0, 2, 1})) == ids({0, 0, 0, 1, 2, 3, -1}));
  CHECK(joined->words_of(ids({4, 5, 4, 1})) == ids({0, 1, 1, -1}));
  CHECK(joined->words_of(ids({4, 5, 1})) == ids({0, -1, -1}));
  CHECK(joined->words_of(ids({2, 5, 5})) == ids({0, 0, 0}));
  CHECK(joined->words_of(ids({5, 4, 5, 5})) == ids({0, 0, -1, -1}));
  const auto apart = Vocab::from_bytes("#nmt-words 1 words=6 merges=0 join=0 lowercase=0 attached=0" + words, "v");
  CHECK(apart->words_of(ids({2, 3, 4, 1})) == ids({0, 1, 2, -1}));
  CHECK(apart->words_of({}).empty());
  CHECK(complaint_of([&] { apart->words_of(ids({6})); }) == "piece id 6 is outside the vocabulary (0 to 5)");
}
