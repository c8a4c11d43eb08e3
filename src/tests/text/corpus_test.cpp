#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/file_size_limit.h"
#include "tests/text/corpus_fixture.h"
#include "text/batch_stream.h"
#include "text/pair_reader.h"
#include "text/parallel_text.h"

using namespace nmt;
using nmt::testing::complaint_of;
using nmt::testing::FileSizeLimit;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A corpus of two small files.
struct Files {
  Files(const std::string& source, const std::string& target) {
    write_text(options.train_sets[0], source);
    write_text(options.train_sets[1], target);
  }
  Corpus corpus(int threads = 2) const { return {options, NumberVocab::make(), NumberVocab::make(), threads}; }
  std::string message() const {
    return complaint_of([&] { corpus(); });
  }

  TempFolder folder;
  DataOptions options{.train_sets = {folder / "train.en", folder / "train.de"}};
};

std::vector<int32_t> all_ids(const Corpus& corpus) {
  std::vector<int64_t> pairs(static_cast<size_t>(corpus.size()));
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<int64_t>(i);
  std::vector<uint8_t> buffer;
  const auto records = corpus.store().fetch(pairs, buffer);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const PairLength length = corpus.store().length(pairs[i]);
    SentenceStore::decode(records[i], length.source + length.target, ids);
  }
  return ids;
}

}  // namespace

TEST_CASE("a record holds any ids") {
  const std::vector<int32_t> ids{0, 1, 127, 128, 16383, 16384, 2097151, 2097152, INT32_MAX};
  std::vector<uint8_t> record;
  SentenceStore::encode(ids, record);
  CHECK(record.size() == 1 + 1 + 1 + 2 + 2 + 3 + 3 + 4 + 5);
  std::vector<int32_t> back;
  CHECK(SentenceStore::decode(record.data(), static_cast<int32_t>(ids.size()), back) == record.data() + record.size());
  CHECK(back == ids);
}

TEST_CASE("a store in a file gives what a store in memory gives, in any order") {
  const TempFolder folder;
  // Records up to 400 KB, so that they meet the borders of blocks in many ways.
  SentenceStore memory(int64_t{1} << 40, folder.path()), file(0, folder.path()), late(int64_t{9} << 20, folder.path());
  Random random(3);
  std::vector<std::vector<int32_t>> expected;
  for (int i = 0; i < 120; ++i) {
    const auto source = static_cast<int32_t>(random.below(65000)), target = static_cast<int32_t>(random.below(65000));
    auto& ids = expected.emplace_back();
    for (int32_t k = 0; k < source + target; ++k) ids.push_back(static_cast<int32_t>(random.next() >> 1));
    std::vector<uint8_t> record;
    SentenceStore::encode(ids, record);
    for (auto* store : {&memory, &file, &late}) store->append(record, {source, target});
    REQUIRE(late.memory_bytes() <= int64_t{9} << 20);
  }
  for (auto* store : {&memory, &file, &late}) store->finish();
  CHECK(memory.in_memory());
  CHECK(!file.in_memory());
  CHECK(!late.in_memory());
  CHECK(file.memory_bytes() == 120 * 12);
  CHECK(std::filesystem::is_empty(folder.path()));  // nothing has a name
  for (int round = 0; round < 20; ++round) {
    std::vector<int64_t> pairs(120);
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<int64_t>(i);
    random.shuffle(pairs);
    pairs.resize(1 + random.below(120));
    for (const auto* store : {&memory, &file, &late}) {
      std::vector<uint8_t> buffer;
      const auto records = store->fetch(pairs, buffer);
      bool equal = true;
      for (size_t i = 0; i < pairs.size(); ++i) {
        const PairLength length = store->length(pairs[i]);
        std::vector<int32_t> ids;
        SentenceStore::decode(records[i], length.source + length.target, ids);
        equal = equal && ids == expected[static_cast<size_t>(pairs[i])];
      }
      CHECK(equal);
    }
  }
}

TEST_CASE("a store says what is wrong with its folder") {
  SentenceStore store(0, "/no/such/folder");
  const std::vector<uint8_t> record{1, 2};
  store.append(record, {1, 1});
  CHECK(contains(complaint_of([&] { store.finish(); }), "temporary file in /no/such/folder"));
}

TEST_CASE("a disk without room is an error that names the folder") {
  const auto message = [](const std::string& folder) {
    const FileSizeLimit limit(1 << 20);
    SentenceStore store(0, folder);
    const std::vector<uint8_t> record(100000, 1);
    return complaint_of<Error>([&] {
      for (int i = 0; i < 100; ++i) store.append(record, {50000, 50000});
    });
  };
  const TempFolder folder;
  CHECK(contains(message(folder.path()), "cannot write the temporary file in " + folder.path()));
  CHECK(std::filesystem::is_empty(folder.path()));
  const std::string usual = std::filesystem::temp_directory_path();
  ::setenv("TMPDIR", "", 1);  // as good as none
  CHECK(contains(message(""), "cannot write the temporary file in /tmp: "));
  ::setenv("TMPDIR", usual.c_str(), 1);
}

TEST_CASE("data options set the limits of a batch") {
  DataOptions data;
  Options options;
  data.declare(options);
  const auto set = [&](const char* name, const char* value) { options.find(name)->set({value}); };
  CHECK(data.limits().source_words == 25000);
  CHECK(data.limits().target_words == 25000);
  CHECK(data.limits().sentences == INT32_MAX);
  set("batch-source-words", "300");
  set("batch-target-words", "400");
  CHECK(data.limits().source_words == 300);
  CHECK(data.limits().target_words == 400);
  set("mini-batch-words", "500");
  set("mini-batch", "7");
  CHECK(data.limits().source_words == 500);
  CHECK(data.limits().target_words == 500);
  CHECK(data.limits().sentences == 7);
  CHECK_THROWS_AS(set("shuffle", "all"), UserError);
  CHECK_THROWS_AS(set("max-length", "0"), UserError);
  CHECK_THROWS_AS(set("max-length", "65535"), UserError);
}

TEST_CASE("empty and over-long pairs are skipped, counted and named") {
  Files files("1 2 3\n\n4\n1 2 3 4 5\n6 7\n  \n", "1\n2\n \n3\n4 5 6 7\n8\n");
  files.options.max_length = 3;
  const Corpus corpus = files.corpus();
  const CorpusCounts& counts = corpus.counts();
  CHECK(counts.read == 6);
  CHECK(counts.kept == 1);
  CHECK(counts.empty == 3);
  CHECK(counts.too_long == 2);
  CHECK(counts.cropped == 0);
  CHECK(counts.source_words == 4);
  CHECK(counts.target_words == 2);
  CHECK(all_ids(corpus) == std::vector<int32_t>{1, 2, 3, 1});
  const std::string en = files.folder / "train.en", de = files.folder / "train.de";
  CHECK(counts.examples == std::vector<std::string>{en + ":2 is empty", de + ":3 is empty", en + ":4 has 5 tokens",
                                                    de + ":5 has 4 tokens", en + ":6 is empty"});
  CHECK(EpochReport{counts, {}}.lines().at(1).ends_with(en + ":6 is empty"));
}

TEST_CASE("--max-length-crop cuts over-long sentences") {
  Files files("1 2 3 4 5\n6\n", "7 8\n1 2 3 4\n");
  files.options.max_length = 3;
  files.options.max_length_crop = true;
  const Corpus corpus = files.corpus();
  CHECK(corpus.counts().kept == 2);
  CHECK(corpus.counts().cropped == 2);
  CHECK(corpus.counts().too_long == 0);
  CHECK(all_ids(corpus) == std::vector<int32_t>{1, 2, 3, 7, 8, 6, 1, 2, 3});
}

TEST_CASE("a line of many bytes is over-long whatever its tokens, and cut between characters") {
  std::string huge = "1";  // the last character before the limit goes beyond it
  while (huge.size() <= Vocab::kMostLineBytes) huge += "€";
  struct Letters : NumberVocab {
    std::vector<int32_t> encode(std::string_view text) const override {
      return {static_cast<int32_t>(text.size()), static_cast<uint8_t>(text.back())};
    }
  };
  const auto [ids, whole] = Letters().encode_line(huge);
  CHECK(ids == std::vector<int32_t>{Vocab::kMostLineBytes - 1, 0xAC});
  CHECK(!whole);
  CHECK(Letters().encode_line(std::string(Vocab::kMostLineBytes, 'x')).whole);

  Files files("1\n" + huge + "\n", "1\n2\n");
  CHECK(files.corpus().counts().too_long == 1);
  CHECK(files.corpus().counts().examples ==
        std::vector<std::string>{files.folder / "train.en" + ":2 is longer than 128 KiB"});
  files.options.max_length_crop = true;
  CHECK(files.corpus().counts().cropped == 1);
}

TEST_CASE("only a few examples are kept") {
  Files files("1\n" + std::string(1000, '\n'), "1\n" + std::string(1000, '\n'));
  const Corpus corpus = files.corpus();
  CHECK(corpus.counts().empty == 1000);
  CHECK(corpus.counts().examples.size() == 3);
  const EpochReport report{corpus.counts(), {}};
  REQUIRE(report.lines().size() == 2);
  CHECK(contains(report.lines()[1], "of 1001 pairs read 1000 are skipped as empty"));
  CHECK(contains(report.lines()[1], "train.en:2 is empty; "));
  CHECK(report.lines()[1].ends_with("; ..."));
}

TEST_CASE("what is wrong with the files is said with their names") {
  const TempFolder folder;
  const std::string absent = folder / "absent";
  Files good("1\n2\n", "1\n2\n");
  const std::string en = good.options.train_sets[0], de = good.options.train_sets[1];
  const auto with = [&](std::vector<std::string> sets) {
    good.options.train_sets = std::move(sets);
    return good.message();
  };
  CHECK(contains(with({en, absent}), absent));
  CHECK(contains(with({en, de, absent, de}), absent));
  CHECK(contains(with({en}), "1 files are given"));
  CHECK(contains(with({}), "0 files are given"));
  CHECK(contains(with({"-", "-"}), "standard input"));

  Files longer("1\n2\n3\n4\n5\n", "1\n2\n3");
  CHECK(contains(longer.message(), "train.en has 5 lines but "));
  CHECK(contains(longer.message(), "train.de has 3: "));
  CHECK(contains(Files("1\n", "1\n2\n").message(), "train.en has 1 lines but "));
  CHECK(contains(Files("", "").message(), "no usable sentence pair in "));
  Files none("1\n\n1 2 3\n", "\n2\n3\n");
  none.options.max_length = 2;
  CHECK(contains(none.message(), "of 3 pairs 2 are empty and 1 are longer than --max-length 2"));
  CHECK(contains(Files("1\n2\n", std::string("1\n2\0\n", 5)).message(), "train.de:2: NUL byte"));
}

TEST_CASE("a pair that no batch can hold is named") {
  Files files("1\n1 2 3\n", "1\n1 2 3 4\n");
  files.options.batch_source_words = 4;
  files.options.batch_target_words = 4;
  CHECK(contains(files.message(), "train.de:2 has 5 tokens with the end token"));
  CHECK(contains(files.message(), "raise --batch-target-words"));
  files.options.batch_target_words = 5;
  CHECK(files.corpus().size() == 2);
  files.options.batch_source_words = 3;
  CHECK(contains(files.message(), "train.en:2 has 4 tokens"));
  files.options.mini_batch_words = 3;
  CHECK(contains(files.message(), "raise --mini-batch-words"));
}

TEST_CASE("Windows line ends, byte order marks, malformed UTF-8 and NUL bytes") {
  const TempFolder folder;
  const std::string path = folder / "text";
  write_text(path, std::string("\xEF\xBB\xBF"
                               "a\r\nb\xFF"
                               "c\r\n\r\nd\0e\xC3\n\xC2\x85",
                               20));
  TextReader reader(path, OnNul::kReplace);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  CHECK(lines == std::vector<std::string>{"a",
                                          "b\xEF\xBF\xBD"
                                          "c",
                                          "",
                                          "d\xEF\xBF\xBD"
                                          "e\xEF\xBF\xBD",
                                          "\xC2\x85"});
  TextReader strict(path, OnNul::kRefuse);
  std::string line;
  for (int i = 0; i < 3; ++i) CHECK(strict.next(line));
  CHECK(contains(complaint_of([&] { strict.next(line); }), path + ":4: NUL byte"));
}

TEST_CASE("a validation set keeps every pair, and measures those that have text") {
  const TempFolder folder;
  write_text(folder / "s", "1 2 3 4 5 6 7 8 9\n\n1\n2 3\n4\n\n");
  write_text(folder / "t", "1\n2\n\n3 4\n5\n\n");
  const auto vocab = NumberVocab::make();
  const BatchLimits limits{.sentences = 2, .source_words = 6, .target_words = 6};
  const auto text = ParallelText::read({folder / "s", folder / "t"}, *vocab, *vocab, limits, 10, 2);
  CHECK(text.source.size() == 6);
  CHECK(text.target[3] == "3 4");
  std::vector<int64_t> seen;
  for (const Batch& batch : text.batches) {
    CHECK(batch.sentences() <= 2);
    if (batch.sentences() > 1) CHECK(batch.source_words() <= 6);
    for (size_t i = 0; i < batch.pairs.size(); ++i) {
      auto ids = vocab->encode(text.source[static_cast<size_t>(batch.pairs[i])]);
      ids.push_back(0);
      CHECK(std::vector<int32_t>(batch.source.begin() + batch.source_begin[i],
                                 batch.source.begin() + batch.source_begin[i + 1]) == ids);
      seen.push_back(batch.pairs[i]);
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(contains(complaint_of([&] {
                   ParallelText::read({folder / "t", folder / "s"}, *vocab, *vocab, limits, 9, 2);
                 }),
                 folder / "s" + ":1: the sentence has 9 tokens and an end token, but the model has only 9 positions"));
  write_text(folder / "t", "1\n2" + std::string(Vocab::kMostLineBytes, ' ') + "\n");
  write_text(folder / "s", "1\n2\n");
  CHECK(complaint_of([&] {
          ParallelText::read({folder / "s", folder / "t"}, *vocab, *vocab, limits, 10, 2);
        }) == folder / "t" + ":2: the sentence is longer than 128 KiB: leave it out");
  for (const char* blank : {"", "\n \n"}) {
    write_text(folder / "t", blank);
    write_text(folder / "s", blank);
    CHECK(contains(complaint_of([&] {
                     ParallelText::read({folder / "s", folder / "t"}, *vocab, *vocab, limits, 10, 1);
                   }),
                   "there is no text"));
  }
}

TEST_CASE("of a parser's pairs, the targets are trees of the sources' words") {
  const TempFolder folder;
  const auto read = [&](const std::string& sentences, const std::string& trees) {
    write_text(folder / "s", sentences);
    write_text(folder / "t", trees);
    std::string message = complaint_of([&] {
      PairReader reader({folder / "s", folder / "t"}, true);
      for (TextPair pair; reader.next(pair);) continue;
    });
    if (message.starts_with(folder / "t:")) message.erase(0, (folder / "t:").size());
    return message;
  };
  CHECK(read("one two\n\nthree\n", "(S (NP XX )NP XX )S\n\n(NP XX )NP\n").empty());
  CHECK(read("one two\n\n", "\n(NP XX )NP\n").empty());  // empty on a side: left out later
  CHECK(read("one two\nthree\n", "(S XX XX )S\n(S (NP XX )S\n") == "2:11: ')S' closes '(NP'");
  CHECK(read("one two\n", "(S XX XX\n") == "1:9: '(S' is not closed");
  CHECK(read("one two\n", "(S XX XX XX )S\n") == "1:10: 'XX' is a leaf too many: there are 2 words");
  CHECK(read("one two\n", "(S XX )S\n") == "1:9: there are 1 leaves, but 2 words");
  CHECK(read("one two\n", "(S (NP one) (VP two))\n") == "1:8: 'one)' is neither bracket nor tag");
}

TEST_CASE("several pairs of files are one corpus; compressed files are files") {
  Files files("1\n2\n", "3\n4\n");
  const std::string en = files.options.train_sets[0], de = files.options.train_sets[1];
  files.options.train_sets = {en, de, de, en};
  CHECK(all_ids(files.corpus()) == std::vector<int32_t>{1, 3, 2, 4, 3, 1, 4, 2});
  const Files others("1\n\n", "2\n3\n");
  files.options.train_sets = {en, de, others.options.train_sets[0], others.options.train_sets[1]};
  CHECK(files.corpus().counts().examples == std::vector<std::string>{others.folder / "train.en" + ":2 is empty"});
  for (const std::string tool : {"gzip", "zstd"}) {
    const auto packed = [&](const std::string& path) { return path + "." + tool; };
    const auto pack = [&](const std::string& path) {
      return std::system(fmt::format("{} -q -c {} > {} 2> /dev/null", tool, path, packed(path)).c_str()) == 0;
    };
    if (!pack(en) || !pack(de)) {
      WARN("SKIPPED: the program " << tool << " is absent");
      continue;
    }
    files.options.train_sets = {packed(en), de, en, packed(de)};
    CHECK(all_ids(files.corpus()) == std::vector<int32_t>{1, 3, 2, 4, 1, 3, 2, 4});
  }
}

TEST_CASE("a corpus does not depend on the number of threads or on where it lies") {
  RandomPairs data(40000, 12, 5);  // more than two chunks
  const auto reference = data.corpus(1);
  std::vector<int32_t> expected;
  for (const auto& pair : data.pairs)
    for (const auto* side : {&pair.source, &pair.target}) expected.insert(expected.end(), side->begin(), side->end());
  CHECK(all_ids(*reference) == expected);
  for (const int threads : {2, 5}) {
    for (const int64_t memory : {0, 1000}) {
      data.options.shuffle_memory = memory;
      const auto corpus = data.corpus(threads);
      CHECK(corpus->store().in_memory() == (memory > 0));
      CHECK(corpus->fingerprint() == reference->fingerprint());
      CHECK(all_ids(*corpus) == expected);
    }
  }
  write_text(data.options.train_sets[0], "1\n2\n");
  write_text(data.options.train_sets[1], "1\n3\n");
  CHECK(data.corpus()->fingerprint() != reference->fingerprint());
}

TEST_CASE("a corpus whose words are in other sentences is another") {
  const uint64_t fingerprint = Files("1 2\n3 4\n", "5\n6\n").corpus().fingerprint();
  CHECK(Files("1 2\n3 4\n", "5\n6\n").corpus().fingerprint() == fingerprint);
  CHECK(Files("1\n3 4\n", "2 5\n6\n").corpus().fingerprint() != fingerprint);
  CHECK(Files("1 2\n3\n", "5\n4 6\n").corpus().fingerprint() != fingerprint);
}

TEST_CASE("a corpus in a file takes memory for its index only") {
  RandomPairs data(300000, 8, 6);
  data.options.shuffle_memory = 1;
  data.options.tempdir = data.folder.path();
  const auto corpus = data.corpus(2);
  CHECK(corpus->size() == 300000);
  CHECK(!corpus->store().in_memory());
  CHECK(corpus->store().memory_bytes() == 300000 * 12);
  CHECK(std::distance(std::filesystem::directory_iterator(data.folder.path()), {}) == 2);  // source, target
  // Mean lengths of 5.5 tokens with </s>: a batch of 500 tokens has about 90 pairs, a window 10 batches.
  data.options.mini_batch_words = 500;
  data.options.maxi_batch = 10;
  BatchStream stream(corpus, data.options, 1);
  std::vector<int> seen(300000);
  uint64_t last_window = 0;
  bool equal = true;
  for (bool more = true; more;) {
    const TrainingBatch item = stream.next();
    for (size_t i = 0; i < item.batch.pairs.size(); ++i) {
      ++seen[static_cast<size_t>(item.batch.pairs[i])];
      equal = equal && data.holds(item.batch, i);
    }
    more = !item.ends_epoch();
    last_window = std::max(last_window, item.next.window);
  }
  CHECK(last_window > 300);
  CHECK(equal);
  CHECK(std::count(seen.begin(), seen.end(), 1) == 300000);
}
