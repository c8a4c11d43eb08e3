#include <algorithm>
#include <fstream>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/line_reader.h"
#include "base/log.h"
#include "decode/line_translator.h"
#include "decode/tree_grammar.h"
#include "model_fixture.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"
#include "tests/variable.h"
#include "text/line_queue.h"

using namespace nmt;

namespace {

struct Fixture {
  TestModel model{13};
  Runtime runtime{2};
  std::shared_ptr<const Vocab> vocab = word_vocab();
  Scorer scorer = model.scorer();
  Decoder decoder{std::span(&scorer, 1), runtime, {.normalize = 1, .max_extra = 5}};

  std::vector<std::string> translate(std::span<const std::string> lines, LineLimits limits,
                                     LineTranslator::Totals* totals = nullptr) {
    LineTranslator translator(decoder, *vocab, *vocab, limits, "test");
    std::vector<std::string> texts;
    translator.translate(lines, [&](int64_t number, const std::string&, std::span<const Translation> translations) {
      REQUIRE(number == static_cast<int64_t>(texts.size()));
      REQUIRE(translations.size() == 1);
      texts.push_back(translations[0].text);
    });
    if (totals != nullptr) *totals = translator.totals();
    return texts;
  }
};

}  // namespace

TEST_CASE("every line has its translation, in order, whatever the batches") {
  Fixture f;
  std::vector<std::string> lines;
  for (const auto& source : random_sources(50, 15, 4)) {
    lines.push_back(f.vocab->decode(source));
    if (lines.size() % 7 == 0) lines.push_back(lines.size() % 2 == 0 ? "" : " \t ");
  }
  std::vector<std::string> alone;
  for (const auto& line : lines) alone.push_back(f.translate(std::span(&line, 1), {})[0]);
  CHECK(std::set<std::string>(alone.begin(), alone.end()).size() > 10);
  for (const int sentences : {0, 1, 8, 64}) CHECK(f.translate(lines, {.sentences = sentences}) == alone);
  CHECK(f.translate(lines, {.tokens = 20}) == alone);
  for (size_t i = 0; i < lines.size(); ++i)
    if (f.vocab->encode(lines[i]).empty()) CHECK(alone[i].empty());
}

TEST_CASE("lines that the host's memory does not suffice for together are worked on by fewer, a sink's own want ends") {
  Fixture f;
  std::vector<std::string> lines;
  for (const auto& source : random_sources(30, 5, 4)) lines.push_back(f.vocab->decode(source));
  const auto expected = f.translate(lines, {});
  LineTranslator translator(f.decoder, *f.vocab, *f.vocab, {.sentences = 1000}, "test");
  const int fails_at = GENERATE(0, 7, 20);
  int calls = 0;
  const auto fail = [&] {
    if (calls++ == fails_at) throw std::bad_alloc();
  };
  std::vector<std::string> found;
  const auto take = [&](int64_t, const std::string&, auto translations) { found.push_back(translations[0].text); };
  translator.translate(lines, take, fail);
  CHECK(found == expected);
  CHECK(calls == static_cast<int>(lines.size()) + 1);
  calls = 0;
  const auto all = [&] { translator.translate(lines, [&](int64_t, const std::string&, auto) { fail(); }); };
  CHECK(testing::complaint_of<OutOfMemory>(all) == "out of memory");
  CHECK(calls == fails_at + 1);
  const auto one = [&] { translator.translate(std::span(lines).first(1), take, [] { throw std::bad_alloc(); }); };
  CHECK(
      testing::complaint_of<OutOfMemory>(one) ==
      "out of memory, for one line alone: shorter lines (nmt-decode --max-length) and a smaller --beam-size need less");
}

TEST_CASE("a tree has as many leaves as its line has words, in pieces or not, also where memory did not suffice") {
  const auto pieces = Vocab::from_bytes("[UNK]\n[SEP]\na\n", "pieces"), tokens = tree_vocab();
  const TreeGrammar grammar(*tokens, false, "tokens");
  TestModel model(13, tokens->size());
  const Scorer scorer = model.scorer();
  Runtime runtime(2);
  Decoder decoder(std::span(&scorer, 1), runtime, {.max_extra = 5, .trees = &grammar});
  std::vector<std::string> lines;
  for (int words = 1; words <= 12; ++words) {
    lines.emplace_back();
    for (int i = 0; i < words; ++i) lines.back() += words % 3 == 0 ? "\u200d " : "a ";  // a joiner has no piece
  }
  LineTranslator translator(decoder, *pieces, *tokens, {.max_length = 10}, "test");
  std::vector<int64_t> leaves;
  const auto take = [&](int64_t, const std::string&, auto found) {
    leaves.push_back(std::ranges::count(found[0].ids.target, tokens->find("XX")));
  };
  int calls = 0;
  translator.translate(lines, take, [&] {
    if (calls++ == 4) throw std::bad_alloc();
  });
  CHECK(leaves == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10});
}

TEST_CASE("where memory suffices for no thread that works apart, all work on one line together") {
  Fixture f;
  std::vector<std::string> lines;
  for (const auto& source : random_sources(30, 5, 4)) lines.push_back(f.vocab->decode(source));
  const auto expected = f.translate(lines, {});
  const TempFolder folder;
  log::copy_to_file(folder / "log");
  LineTranslator translator(f.decoder, *f.vocab, *f.vocab, {.sentences = 4}, "test");
  std::vector<std::string> found;
  translator.translate(
      lines, [&](int64_t, const std::string&, auto translations) { found.push_back(translations[0].text); },
      [here = std::this_thread::get_id()] {
        if (std::this_thread::get_id() != here) throw std::bad_alloc();
      });
  CHECK(found == expected);
  const std::string warnings = read_file(folder / "log");
  CHECK(warnings.find("1 lines at most") != std::string::npos);
  CHECK(warnings.find("from now on all threads work on one line together") != std::string::npos);
}

TEST_CASE("threads for whose lines together memory did not suffice do not work apart on as many") {
  Fixture f;
  const Scorer scorer = f.model.scorer();
  Runtime runtime(4);
  Decoder decoder(std::span(&scorer, 1), runtime, f.decoder.options());
  std::vector<std::string> lines;
  for (const auto& source : random_sources(12, 5, 4)) lines.push_back(f.vocab->decode(source));
  int64_t tokens = 0;
  for (const auto& line : lines) tokens += std::ssize(f.vocab->encode(line)) + 1;
  const TempFolder folder;
  log::copy_to_file(folder / "log");
  LineTranslator translator(decoder, *f.vocab, *f.vocab, {.sentences = 32}, "test");
  std::vector<std::string> found;
  bool failed = false;
  translator.translate(
      lines, [&](int64_t, const std::string&, auto translations) { found.push_back(translations[0].text); },
      [&, here = std::this_thread::get_id()] {
        CHECK(std::this_thread::get_id() == here);
        if (!std::exchange(failed, true)) throw std::bad_alloc();
      });
  CHECK(found == f.translate(lines, {}));
  CHECK(read_file(folder / "log")
            .find(fmt::format("from now on 6 lines at most, of {} tokens, are", tokens / 4 / 2 * 4)) !=
        std::string::npos);
  CHECK(translator.lacked_memory());
  const SearchLimits sufficed = translator.limits().at_a_time(true, 1);
  CHECK(sufficed.sentences == 6);
  CHECK(sufficed.tokens == tokens / 4 / 2);
  CHECK(!sufficed.apart);
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("lines that a device's memory does not suffice for together are worked on by fewer") {
  const testing::Variable memory("NMT_EMULATED_MEMORY", "1");
  const auto device = backend_of("0");  // one of its own
  TestModel here(13), there(13, 12, device);
  const Scorer on_host = here.scorer(), on_device = there.scorer();
  const SearchOptions options{.beam = 8, .max_extra = 1};
  Runtime host(1), runtime(1, DType::kF32, false, device);
  Decoder expected(std::span(&on_host, 1), host, options), decoder(std::span(&on_device, 1), runtime, options);
  const auto vocab = word_vocab();
  const auto translate = [&](Decoder& by, std::span<const std::string> lines) {
    std::vector<std::string> texts;
    LineTranslator(by, *vocab, *vocab, {.sentences = 1000}, "test")
        .translate(lines,
                   [&](int64_t, const std::string&, auto translations) { texts.push_back(translations[0].text); });
    return texts;
  };
  const auto sources = random_sources(40, 2, 4);
  std::vector<std::string> lines;
  for (const auto& source : sources) lines.push_back(vocab->decode(source));
  CHECK_THROWS_AS(decoder.translate(sources, {.sentences = 40}, [](size_t, auto) {}), OutOfMemory);
  const TempFolder folder;
  log::copy_to_file(folder / "log");
  CHECK(translate(decoder, lines) == translate(expected, lines));
  std::ifstream warnings(folder / "log");
  std::string first;
  std::getline(warnings, first);
  int64_t tokens = 0;
  for (const auto& source : sources) tokens += std::ssize(source);
  CHECK(
      first.ends_with(fmt::format(": from now on 20 lines at most, of {} tokens, are worked on together", tokens / 2)));
  LineTranslator translator(decoder, *vocab, *vocab, {.sentences = 40}, "test");
  size_t scored = 0;
  translator.score(lines, lines, "given", [&](int64_t, const std::string&, auto) { ++scored; });
  CHECK(scored == lines.size());
}
#endif

TEST_CASE("long lines are cut, and lines of odd bytes are translated") {
  Fixture f;
  std::string words;
  for (int i = 0; i < 10000; ++i) words += fmt::format("w{} ", 2 + i % 10);
  const std::vector<std::string> lines = {"w2 \xef\xbf\xbd w3", words, std::string("w4\0w5", 5), "w2 w3 w4 w5 w6"};
  LineTranslator::Totals totals;
  const auto texts = f.translate(lines, {.max_length = 4}, &totals);
  REQUIRE(texts.size() == lines.size());
  CHECK(totals.lines == 4);
  CHECK(totals.cut == 2);
  const std::vector<std::string> cut = {"w2 w3 w4 w5"};
  const auto expected = f.translate(cut, {});
  CHECK(texts[1] == expected[0]);
  CHECK(texts[3] == expected[0]);
}

TEST_CASE("a warning names the line of the whole input, whatever is translated at a time") {
  Fixture f;
  const TempFolder folder;
  log::copy_to_file(folder / "log");
  LineTranslator translator(f.decoder, *f.vocab, *f.vocab, {.max_length = 3}, "test");
  const std::vector<std::string> lines = {"w2", "w3 w4 w5 w6", "w7"};
  for (int call = 0; call < 2; ++call) translator.translate(lines, [](int64_t, const std::string&, auto) {});
  const std::vector<std::string> given = {"w2 w3 w4 w5", "w2", "w2"};
  translator.score(lines, given, "given", [](int64_t, const std::string&, auto) {});
  const auto warnings = read_lines(folder / "log");
  REQUIRE(warnings.size() == 3);
  CHECK(warnings[0].find(" test:2: the source has 4 tokens and is cut after 3;") != std::string::npos);
  CHECK(warnings[1].find(" test:5: the source has 4 tokens and is cut after 3;") != std::string::npos);
  CHECK(warnings[2].find(" given:7: the translation has 4 tokens and is cut after 3;") != std::string::npos);
}

TEST_CASE("a line of many bytes is cut before it has tokens") {
  Fixture f;
  const std::string word(Vocab::kMostLineBytes, 'x'), blank(Vocab::kMostLineBytes, ' ');
  const std::vector<std::string> lines = {"w2 " + word + " w3", blank + "w2", "w2" + blank};
  LineTranslator::Totals totals;
  const auto texts = f.translate(lines, {}, &totals);
  CHECK(totals.cut == 3);
  CHECK(totals.source_tokens == 3);
  const std::vector<std::string> cut = {"w2 x", "", "w2"};
  CHECK(texts == f.translate(cut, {}));
}

TEST_CASE("given translations are scored in order") {
  Fixture f;
  const std::vector<std::string> lines = {"w3 w4 w5 w6", "", "w7", "w8 w9", " \t "};
  const std::vector<std::string> targets = {"w2", "w3 w4", "", "w8 w8 w8", ""};
  LineTranslator translator(f.decoder, *f.vocab, *f.vocab, {.sentences = 2}, "test");
  std::vector<double> sums;
  translator.score(lines, targets, "given", [&](int64_t number, const std::string&, std::span<const Translation> t) {
    CHECK(number == static_cast<int64_t>(sums.size()));
    CHECK(t[0].text == targets[sums.size()]);
    const auto length = static_cast<double>(f.vocab->encode(targets[sums.size()]).size() + 1);
    CHECK(t[0].score == Approx(t[0].log_probability / length));
    sums.push_back(t[0].log_probability);
  });
  REQUIRE(sums.size() == 5);
  CHECK(sums[1] < 0);
  CHECK(sums[2] < 0);
  CHECK(sums[4] == 0);  // as where it is translated
  CHECK(translator.totals().source_tokens == 7);
  CHECK(translator.totals().target_tokens == 6);
  const std::vector<IdPair> pair = {{{8, 9, 1}, {8, 8, 8, 1}}};
  const auto scores = f.decoder.score(pair)[0];
  CHECK(sums[3] == Approx(std::accumulate(scores.begin(), scores.end(), 0.0)).epsilon(1e-5));
}

TEST_CASE("long translations of short lines are not scored all together") {
  Fixture f;
  const std::vector<std::string> lines(12, "w2"), targets(12, "w3 w4 w5 w6 w7");
  const auto batches = [&](int words) {
    f.runtime.profile = Profile(true);
    LineTranslator translator(f.decoder, *f.vocab, *f.vocab, {.tokens = words}, "test");
    translator.score(lines, targets, "given", [](int64_t, const std::string&, auto) {});
    return f.runtime.profile.ops().at("project_cross_entropy").calls;
  };
  CHECK(batches(60) == 1);
  CHECK(batches(59) == 2);
  CHECK(batches(10) == 6);
  CHECK(batches(1) == 12);
}

TEST_CASE("a queue gives what a file has, and of a pipe what is there and waits for no more") {
  TempFolder folder;
  const std::string path = folder / "text";
  std::ofstream(path) << "\xef\xbb\xbf"
                         "a\nb\xff\r\n\nc";
  LineQueue whole(path, 10);
  const std::vector<std::string> lines = {"a", "b\xef\xbf\xbd", "", "c"};
  CHECK(whole.take() == lines);
  CHECK(whole.take().empty());
  LineQueue few(path, 3);
  for (const size_t count : {3, 1, 0}) CHECK(few.take().size() == count);
  CHECK_THROWS_AS(LineQueue(folder / "none", 2), UserError);

  // The writer waits for the reader's answer before it writes on.
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  LineQueue piped(fmt::format("/dev/fd/{}", ends[0]), 100);
  for (const std::string line : {"first\n", "second\n"}) {
    REQUIRE(::write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    const auto taken = piped.take();
    REQUIRE(taken.size() == 1);
    CHECK(taken[0] + "\n" == line);
  }
  ::close(ends[1]);
  CHECK(piped.take().empty());
  ::close(ends[0]);
}

TEST_CASE("the rest of a damaged file is an error after the lines before it") {
  TempFolder folder;
  const std::string path = folder / "cut.gz";
  std::string text;
  for (int i = 0; i < 30000; ++i) text += fmt::format("line {} {}\n", i, i * 7919 % 1009);
  std::ofstream(folder / "text") << text;
  REQUIRE(std::system(fmt::format("gzip < {0}/text | head -c 40000 > {0}/cut.gz", folder.path()).c_str()) == 0);
  LineQueue queue(path, 1000);
  size_t lines = 0;
  const auto all = [&] {
    for (auto taken = queue.take(); !taken.empty(); taken = queue.take()) lines += taken.size();
  };
  CHECK_THROWS_AS(all(), UserError);
  CHECK(lines > 1000);
}
