#include <thread>

#include "tests/text/vocab_fixture.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

// A protocol buffer's length-delimited field.
std::string field(int number, const std::string& content) {
  std::string text{static_cast<char>(number << 3 | 2)};
  size_t rest = content.size();
  for (; rest >= 0x80; rest >>= 7) text.push_back(static_cast<char>(rest | 0x80));
  return text + static_cast<char>(rest) + content;
}
std::string piece(const std::string& text, int type) {
  return field(1, field(1, text) + std::string{'\x15', 0, 0, 0, 0, '\x18', static_cast<char>(type)});
}

constexpr int kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4;  // types of pieces

std::string foreign_model(const std::string& pieces, const std::string& normalisation = "") {
  return pieces + field(2, std::string("\x18\x02", 2)) + field(3, normalisation);  // BPE
}

// The rules that "a", "aa" and so on are nothing, so many: a double array whose nodes and leaves lie in one block.
std::string rules(uint32_t count) {
  std::vector<uint32_t> units(256, 1u << 31);
  units[0] = 1 << 10;
  for (uint32_t k = 1; k <= count; ++k) units[k ^ 'a'] = (k ^ 'a' ^ (k + 1)) << 10 | 1 << 8 | 'a';
  return std::string("\0\4\0\0", 4) + std::string(reinterpret_cast<const char*>(units.data()), 1024) + '\0';
}

}  // namespace

TEST_CASE("SentencePiece: ids, round trip, determinism, both types") {
  TempFolder folder;
  const auto text = invented_text(1500, 2);
  write_lines(folder / "t", text);
  for (const std::string type : {"bpe", "unigram"}) {
    const auto trained = train_vocab(training(type, 200, {folder / "t"}));
    const auto& vocab = *trained.vocab;
    CHECK(vocab.type() == type);
    CHECK(vocab.size() == 200);
    CHECK(vocab.unk_id() == 0);
    CHECK(vocab.eos_id() == 1);
    CHECK(vocab.piece(1) == "</s>");
    CHECK(vocab.find(vocab.piece(57)) == 57);
    CHECK(vocab.find("no such piece") == -1);
    CHECK(vocab.bytes() == train_vocab(training(type, 200, {folder / "t"})).vocab->bytes());
    const auto copy = Vocab::from_bytes(vocab.bytes(), "copy");
    for (const auto& line : text) {
      const auto encoded = vocab.encode(line);
      REQUIRE(std::ranges::count(encoded, vocab.unk_id()) == 0);
      REQUIRE(vocab.decode(encoded) == line);
      REQUIRE(copy->encode(line) == encoded);
    }
    CHECK(vocab.encode("").empty());
    CHECK(vocab.encode(" \t ").empty());
    CHECK(std::ranges::count(vocab.encode("</s>"), vocab.eos_id()) == 0);
    CHECK(vocab.encode("ka\xffto") == vocab.encode("ka\uFFFDto"));
    const auto once = vocab.encode("ka to");
    auto ended = once;
    ended.insert(ended.end(), 3, vocab.eos_id());
    CHECK(vocab.decode(ended) == vocab.decode(once));
    CHECK(complaint_of([&] { vocab.decode(ids({200})); }) == "piece id 200 is outside the vocabulary (0 to 199)");
    CHECK(measure_fit(vocab, trained.words, 1).text() == measure_fit(vocab, trained.words, 3).text());
  }
}

TEST_CASE("SentencePiece: a model that the library has no room for, or with a part twice, is refused") {
  const std::string usual = piece("<unk>", kUnknown) + piece("</s>", kControl) + piece("b", kNormal);
  const auto complaint = [](const std::string& bytes) {
    return complaint_of([&] { Vocab::from_bytes(bytes, "v")->encode(std::string(100, 'a')); });
  };
  CHECK(complaint(foreign_model(usual, field(2, rules(32)))).empty());
  CHECK(complaint(foreign_model(usual, field(2, rules(33)))) == "v is damaged: the rules of its normalisation");
  std::string pieces = usual;
  for (size_t n = 1; n <= 64; ++n) pieces += piece(std::string(n, 'a'), kUserDefined);
  CHECK(complaint(foreign_model(pieces)).empty());
  CHECK(complaint(foreign_model(pieces + piece(std::string(65, 'a'), kUserDefined)))
            .starts_with("v is damaged: too many user-defined pieces begin like 'aaa"));
  CHECK(complaint(foreign_model(usual) + field(3, "")) == "v is damaged: a part of it is there twice");
}

TEST_CASE("SentencePiece: text is normalised by the model's rule") {
  TempFolder folder;
  write_lines(folder / "t", invented_text(300, 3));
  auto settings = training("bpe", 320, {folder / "t"});
  settings.byte_fallback = true;  // so that nothing is unknown
  const auto round_trip = [&](const std::string& rule, const std::string& text) {
    settings.normalization = rule;
    const auto vocab = train_vocab(settings).vocab;
    return vocab->decode(vocab->encode(text));
  };
  CHECK(round_trip("nmt_nfkc", "  Ａ\u00a0ﬁ\u0085x\u200by ①  ") == "A fi\u0085x y 1");
  CHECK(round_trip("identity", " Ａ\u00a0ﬁ  x ") == "Ａ\u00a0ﬁ x");
  CHECK(round_trip("nmt_nfkc_cf", "STRAßE Öl") == "straße öl");
  CHECK(round_trip("nmt_nfkc", "") == "");
}

TEST_CASE("SentencePiece: byte fallback leaves nothing unknown; user-defined symbols stay whole") {
  TempFolder folder;
  write_lines(folder / "t", invented_text(300, 4));
  auto settings = training("unigram", 400, {folder / "t"});
  settings.byte_fallback = true;
  settings.user_defined_symbols = {"<2de>", "a,\"b"};
  const auto vocab = train_vocab(settings).vocab;
  const std::string text = "漢字 ka <2de>to xa,\"bx \U0001F600";
  const auto encoded = vocab->encode(text);
  CHECK(std::ranges::count(encoded, vocab->unk_id()) == 0);
  CHECK(std::ranges::count(encoded, vocab->find("<2de>")) == 1);
  CHECK(std::ranges::count(encoded, vocab->find("a,\"b")) == 1);
  CHECK(vocab->decode(encoded) == text);
  // Byte pieces break no lines and make no text that none may hold.
  for (const char* piece : {"<0x0A>", "<0x0D>", "<0x00>"}) {
    CAPTURE(piece);
    CHECK(vocab->decode(std::vector<int32_t>{vocab->find("<0x41>"), vocab->find(piece), vocab->find("<0x42>")}) ==
          "A B");
  }
}

TEST_CASE("SentencePiece: symbols that cannot be pieces of their own are named") {
  TempFolder folder;
  write_lines(folder / "t", invented_text(300, 4));
  auto settings = training("bpe", 400, {folder / "t"});
  const auto train_with = [&](const std::string& symbol) {
    settings.user_defined_symbols = {"<2de>", symbol};
    return complaint_of([&] { train_vocab(settings); });
  };
  CHECK(train_with("b\xe4r") == "--user-defined-symbols: 'b\uFFFDr' is not valid UTF-8");
  CHECK(train_with("<0x4A>").empty());
  settings.byte_fallback = true;
  CHECK(train_with("<0x4A>") == "--user-defined-symbols: <0x4A> is a piece of --byte-fallback");
  for (const char* symbol : {"<0x4a>", "<0x4>", "0x4A"}) CHECK(train_with(symbol).empty());
}

TEST_CASE("SentencePiece: models from elsewhere with any ids") {
  const std::string pieces = piece("<s>", kControl) + piece("<pad>", kControl) + piece("</s>", kControl) +
                             piece("<unk>", kUnknown) + piece("\u2581", kNormal) + piece("a", kNormal);
  const auto vocab = Vocab::from_bytes(foreign_model(pieces), "foreign");
  CHECK(vocab->type() == "bpe");
  CHECK(vocab->eos_id() == 2);
  CHECK(vocab->unk_id() == 3);
  CHECK(vocab->encode("aa x") == ids({4, 5, 5, 4, 3}));
  CHECK(vocab->decode(ids({0, 4, 5, 5, 4, 5, 1, 2})) == "aa a");
  CHECK(vocab->decode(vocab->encode(" aa  a ")) == "aa a");
  const std::string endless = foreign_model(piece("<unk>", kUnknown) + piece("a", kNormal));
  CHECK(complaint_of([&] { Vocab::from_bytes(endless, "m"); }) ==
        "m has no end-of-sentence piece: train it with one (spm_train --eos_id=1)");
}

TEST_CASE("SentencePiece: sizes and texts that cannot be trained on") {
  TempFolder folder;
  write_lines(folder / "t", {"ab ab ab", "ba"});
  write_lines(folder / "blank", {"", "  ", "\t"});
  const auto train = [&](const std::string& type, int size, const std::string& file) {
    return complaint_of([&] { train_vocab(training(type, size, {folder / file})); });
  };
  for (const std::string type : {"bpe", "unigram"}) {
    const std::string error = train(type, 500, "t"), start = "--size 500 is too large for this text: at most ";
    REQUIRE(error.starts_with(start));
    const int most = std::stoi(error.substr(start.size()));  // is what it says
    CHECK(train_vocab(training(type, most, {folder / "t"})).vocab->size() == most);
    CHECK(train(type, most + 1, "t").starts_with(fmt::format("--size {} is too large", most + 1)));
    CHECK(train(type, 4, "t") ==
          "--size 4 is too small: the text needs at least 5 pieces; or take a lower --character-coverage");
    CHECK(train_vocab(training(type, 5, {folder / "t"})).vocab->size() == 5);
  }
  for (const std::string type : {"bpe", "unigram", "wordpiece", "words"})
    CHECK(train(type, 50, "blank") == "there is no text to learn from in " + folder.path() + "/blank");
  CHECK(train("bpe", 50, "nowhere").starts_with("cannot read " + folder.path() + "/nowhere"));
}

TEST_CASE("vocabularies are used by many threads at once") {
  TempFolder folder;
  const auto text = invented_text(400, 5);
  write_lines(folder / "t", text);
  write_lines(folder / "code", {"#version: 0.2", "k a", "t o", "s c", "sc h"});
  for (const std::string type : {"bpe", "unigram", "wordpiece", "words"}) {
    auto settings = training(type, 150, {folder / "t"});
    if (type == "words") settings.merges = folder / "code";
    const auto vocab = train_vocab(settings).vocab;
    const auto work = [&] {
      std::vector<std::pair<std::vector<int32_t>, std::string>> result;
      for (const auto& line : text) {
        auto encoded = vocab->encode(line);
        auto decoded = vocab->decode(encoded);
        result.emplace_back(std::move(encoded), std::move(decoded));
      }
      return result;
    };
    const auto expected = work();
    std::vector<int> same(4);
    {
      std::vector<std::jthread> threads;
      for (auto& s : same) threads.emplace_back([&] { s = work() == expected; });
    }
    CHECK(same == std::vector<int>(4, 1));
  }
}

TEST_CASE("SentencePiece: pieces belong to words") {
  const std::string space = "\u2581";
  const auto vocab =
      Vocab::from_bytes(foreign_model(piece("<unk>", kUnknown) + piece("</s>", kControl) + piece(space + "a", kNormal) +
                                      piece("b", kNormal) + piece(space, kNormal) + piece("c" + space, kNormal) +
                                      piece("d" + space + "e", kNormal)),
                        "model");
  const int32_t a = 2, b = 3, gap = 4, c = 5, two = 6;
  CHECK(vocab->words_of(ids({a, b, a, b, b, 1})) == ids({0, 0, 1, 1, 1, -1}));
  CHECK(vocab->words_of(ids({b, 0, a, 0, 1})) == ids({0, 0, 1, 1, -1}));
  CHECK(vocab->words_of(ids({gap, b, gap, a, gap, 1})) == ids({0, 0, 1, 1, -1, -1}));
  CHECK(vocab->words_of(ids({b, c, b, c, b})) == ids({0, 0, 1, 1, 2}));
  CHECK(vocab->words_of(ids({a, two, b, gap, gap, b})) == ids({0, 0, 1, 2, 2, 2}));
  CHECK(vocab->words_of({}).empty());

  TempFolder folder;
  write_lines(folder / "t", invented_text(500, 2));
  const auto trained = train_vocab(training("bpe", 120, {folder / "t"})).vocab;
  for (const auto& line : invented_text(20, 9)) {
    const auto of_line = trained->words_of(trained->encode(line));
    CHECK(of_line.back() == std::ranges::count(line, ' '));
    CHECK(std::ranges::is_sorted(of_line));
  }
}
