#include <algorithm>
#include <numeric>

#include "tests/text/vocab_fixture.h"
#include "text/vocab_types.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

// Whatever the bytes are: a UserError, or a vocabulary that works.
bool survives(const std::string& bytes) {
  std::shared_ptr<const Vocab> vocab;
  try {
    vocab = Vocab::from_bytes(bytes, "hostile");
  } catch (const UserError& error) {
    REQUIRE(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return false;
  }
  for (const std::string& text :
       {std::string("Katos rü, ﬁ①Ａ\u0085 漢 é\xff @@ x@@ y"), std::string("a\0b", 3), std::string(300, 'x'),
        std::string("\u1100\u1161\u0301\u0308\u0344 \uFDFA \u200d\U0001F468\u200d\U0001F469")}) {
    const auto encoded = vocab->encode(text);
    for (const int32_t id : encoded) REQUIRE((id >= 0 && id < vocab->size() && id != vocab->eos_id()));
    REQUIRE(vocab->words_of(encoded).size() == encoded.size());
    REQUIRE(vocab->decode(encoded).find('\n') == std::string::npos);
  }
  std::vector<int32_t> all(static_cast<size_t>(vocab->size()));
  std::iota(all.begin(), all.end(), 0);
  REQUIRE(std::ranges::all_of(all, [&](int32_t id) { return vocab->find(vocab->piece(id)) >= 0; }));
  REQUIRE(vocab->decode(all).find('\n') == std::string::npos);
  REQUIRE_NOTHROW(vocab->properties());
  REQUIRE(Vocab::from_bytes(vocab->bytes(), "again")->bytes() == vocab->bytes());
  CHECK_THROWS_AS(vocab->decode(std::vector<int32_t>{vocab->size()}), UserError);
  CHECK_THROWS_AS(vocab->decode(std::vector<int32_t>{-1}), UserError);
  return true;
}

struct Samples {
  Samples() {
    write_lines(folder / "t", invented_text(300, 6));
    write_lines(folder / "code", {"#version: 0.2", "k a", "t o", "s c", "sc h"});
    for (const VocabType& kind : vocab_types()) {
      const std::string type(kind.name);
      auto settings = training(type, 120, {folder / "t"});
      if (type == "words") settings.merges = folder / "code";
      if (type == "bpe") settings.user_defined_symbols = {"<2de>"};
      files.push_back(train_vocab(settings).vocab->bytes());
    }
    auto bytes = training("bpe", 350, {folder / "t"}), plain = training("unigram", 120, {folder / "t"}),
         joined = training("words", 120, {folder / "t"});
    bytes.byte_fallback = true;
    plain.normalization = "identity";
    joined.join_bpe = true;
    for (const auto& settings : {bytes, plain, joined}) files.push_back(train_vocab(settings).vocab->bytes());
  }
  TempFolder folder;
  std::vector<std::string> files;
};

}  // namespace

TEST_CASE("damaged vocabularies give a UserError or work, never anything else") {
  const Samples samples;
  Random random(11);
  for (const std::string& good : samples.files) {
    REQUIRE(survives(good));
    int alive = 0;
    for (int i = 0; i < 150; ++i) {  // bytes changed, many of them near the start or the end
      std::string bad = good;
      const uint64_t range = random.below(3) == 0 ? bad.size() : std::min<uint64_t>(bad.size(), 3000);
      const bool back = random.below(2) == 0;
      for (uint64_t n = 1 + random.below(4); n > 0; --n) {
        const uint64_t at = random.below(range);
        bad[back ? bad.size() - 1 - at : at] = static_cast<char>(random.below(256));
      }
      alive += survives(bad);
    }
    CHECK(alive < 150);
    for (int i = 0; i < 60; ++i) survives(good.substr(0, random.below(good.size())));
    for (int i = 0; i < 60; ++i) {  // a part twice, or left out
      const uint64_t a = random.below(good.size()), b = a + random.below(good.size() - a);
      survives(good.substr(0, b) + good.substr(a));
      survives(good.substr(0, a) + good.substr(b));
    }
  }
}

TEST_CASE("the normalisation rules of a SentencePiece model cannot lead outside its memory") {
  const Samples samples;
  const std::string& good = samples.files[0];
  const size_t rules = good.find("nmt_nfkc", good.size() - std::min<size_t>(good.size(), 300000));
  REQUIRE(rules != std::string::npos);
  Random random(12);
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    for (uint64_t n = 1 + random.below(20); n > 0; --n)
      bad[rules + 8 + random.below(bad.size() - rules - 8)] = static_cast<char>(random.below(256));
    refused += !survives(bad);
  }
  CHECK(refused > 20);
}

TEST_CASE("random bytes, and such after a vocabulary's beginning, give a UserError or work") {
  Random random(13);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = i % 4 == 0   ? std::string("\x0A\x05\x0A\x03", 4)
                        : i % 4 == 1 ? "[UNK]\n[SEP]\n"
                        : i % 4 == 2 ? "#nmt-words 1 words=3 merges=1 join=1 lowercase=0 attached=1\n<unk>\n</s>\n"
                                     : "";
    for (uint64_t n = random.below(60); n > 0; --n) bytes.push_back(static_cast<char>(random.below(256)));
    const bool works = survives(bytes);
    if (i % 4 == 3) CHECK(!works);
  }
}

TEST_CASE("damaged vocabularies are described in one line") {
  const auto error = [](const std::string& bytes) { return complaint_of([&] { Vocab::from_bytes(bytes, "v"); }); };
  const std::string header = "#nmt-words 1 words=3 merges=1 join=1 lowercase=0 attached=1\n";
  CHECK(error("") == "v is empty, not a vocabulary");
  CHECK(error("hello\nworld\n") ==
        "v is not a vocabulary: expected a SentencePiece model, or a file that begins with #nmt-words, or a "
        "vocab.txt with the line [UNK]");
  CHECK(error(std::string("\x02\0\0\0\0\0\0\0{}", 10)) ==
        "v is a safetensors file, as models are, no vocabulary: nmt-vocab extract takes a model's out");
  CHECK(error("[UNK]\r\r\n</s>\n") == "v has no unknown piece: add a line [UNK]");
  CHECK(error(header + "<unk>\n</s>\nx\t3\na") == "v is cut off or damaged: it ends after 0 of 1 merges");
  CHECK(error(header + "<unk>\n</s>\n") == "v is cut off or damaged: it ends after 2 of 3 words");
  CHECK(error(header + "<unk>\n</s>\n</s>\na b\n") == "v:4: '</s>' is there twice");
  CHECK(error(header + "<unk>\n</s>\nx\tmany\na b\n") == "v:4: expected a count after the tab");
  CHECK(error(header + "<unk>\n</s>\nx y\na b\n") == "v:4: expected one word");
  CHECK(error(header + "<unk>\n</s>\nx\na\n") == "v:5: expected a merge `left right`");
  CHECK(error(header + "<unk>\n</s>\nx\na b\nc d\n") == "v:6: more lines than the header says");
  CHECK(error(header + "</s>\n<unk>\nx\na b\n") == "v:2: the first two words must be <unk> and </s>");
  CHECK(error("#nmt-words 2 words=3\n") == "v:1: only version 1 of words vocabularies is known");
  CHECK(error("#nmt-words 1 words=3 merges=1 join=7 lowercase=0 attached=1\n") ==
        "v:1: the header is damaged: 'join=7'");
  CHECK(error("#nmt-words 1 words=999999999999999 merges=0 join=0 lowercase=0 attached=1\n<unk>\n") ==
        "v is cut off or damaged: it ends after 1 of 999999999999999 words");
  const Samples samples;
  const std::string& model = samples.files[0];
  CHECK(error(model.substr(0, 200)).starts_with("v is cut off or damaged: no more than "));
  CHECK(complaint_of([&] { Vocab::load(samples.folder / "nowhere"); }).starts_with("cannot read "));
}
