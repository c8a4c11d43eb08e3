#include "text/vocab_wordpiece.h"

#include <cmath>
#include <map>
#include <set>

#include "tests/text/vocab_fixture.h"
#include "text/vocab_wordpiece_trainer.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

std::vector<std::string> words_of(std::string_view text, WordPieceCasing casing = {}) {
  return basic_words(text, casing);
}

std::string join(std::initializer_list<std::string> words) { return join_words(std::vector<std::string>(words)); }

std::shared_ptr<const Vocab> vocab_of(const std::string& pieces) { return Vocab::from_bytes(pieces, "vocab.txt"); }

std::string pieces_of(const Vocab& vocab, std::string_view text) {
  std::string result;
  for (const int32_t id : vocab.encode(text)) result += fmt::format("{}{}", result.empty() ? "" : " ", vocab.piece(id));
  return result;
}

// The definition, step by step and without any cleverness: merge every pair in a copy, take the highest likelihood.
using Words = std::vector<std::pair<std::vector<std::string>, int64_t>>;

Words merged(const Words& words, const std::string& left, const std::string& right, const std::string& name) {
  Words result;
  for (const auto& [units, count] : words) {
    std::vector<std::string> next;
    for (size_t i = 0; i < units.size(); ++i) {
      const bool here = i + 1 < units.size() && units[i] == left && units[i + 1] == right;
      next.push_back(here ? name : units[i]);
      i += here;
    }
    result.emplace_back(next, count);
  }
  return result;
}

double log_likelihood(const Words& words) {
  std::map<std::string, int64_t> counts;
  int64_t total = 0;
  for (const auto& [units, count] : words)
    for (const auto& unit : units) {
      counts[unit] += count;
      total += count;
    }
  double sum = 0;
  for (const auto& [unit, count] : counts)
    sum += static_cast<double>(count) * std::log(static_cast<double>(count) / static_cast<double>(total));
  return sum;
}

std::vector<std::string> reference_pieces(Words words, size_t steps) {
  std::vector<std::string> made;
  std::set<std::string> known;
  while (made.size() < steps) {
    std::set<std::pair<std::string, std::string>> pairs;  // in the order that decides ties
    for (const auto& [units, count] : words)
      for (size_t i = 1; i < units.size(); ++i) pairs.emplace(units[i - 1], units[i]);
    if (pairs.empty()) break;
    double best = -std::numeric_limits<double>::infinity();
    std::pair<std::string, std::string> chosen;
    for (const auto& [left, right] : pairs) {
      const double value = log_likelihood(merged(words, left, right, "(new)"));
      if (value > best + 1e-7) std::tie(best, chosen) = std::tuple(value, std::pair(left, right));
    }
    const std::string name = chosen.first + chosen.second.substr(2);
    words = merged(words, chosen.first, chosen.second, name);
    if (known.insert(name).second) made.push_back(name);
  }
  return made;
}

}  // namespace

TEST_CASE("WordPiece: the basic words of a text") {
  CHECK(words_of("Wie geht's?  3.5%") == std::vector<std::string>{"Wie", "geht", "'", "s", "?", "3", ".", "5", "%"});
  CHECK(words_of("a\u00a0b\u0085c\u200bd\uFFFD\te") == std::vector<std::string>{"a", "bcd", "e"});
  CHECK(words_of("a\u2028b\u2029c\u3000d") == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(words_of("東京tower") == std::vector<std::string>{"東", "京", "tower"});
  CHECK(words_of("„Ja“–5€ $x^2") == std::vector<std::string>{"„", "Ja", "“", "–", "5€", "$", "x", "^", "2"});
  CHECK(words_of("ÄÉ", {.lowercase = true, .strip_accents = false}) == std::vector<std::string>{"äé"});
  CHECK(words_of("ÄÉ", {.lowercase = true, .strip_accents = true}) == std::vector<std::string>{"ae"});
  CHECK(words_of("x\xffy") == std::vector<std::string>{"xy"});
  CHECK(words_of("").empty());
}

TEST_CASE("WordPiece: words are joined as text is written") {
  CHECK(join({"Wie", "geht", "'", "s", ",", "du", "?"}) == "Wie geht's, du?");
  CHECK(join({"(", "a", ")", "[", "b", "]"}) == "(a) [b]");
  CHECK(join({"er", "sagt", ":", "\"", "ja", "\"", "und", "\"", "nein", "\""}) == "er sagt: \"ja\" und \"nein\"");
  CHECK(join({"„", "ja", "“", "oder", "“", "so", "”", "»", "a", "«", "«", "b", "»"}) == "„ja“ oder “so” »a« «b»");
  CHECK(join({"3", ".", "5", "km", ".", "Um", "12", ":", "30"}) == "3.5 km. Um 12:30");
  CHECK(join({"3", ",", "5"}) == "3,5");
  CHECK(join({"on", "monday", ",", "5"}) == "on monday, 5");
  CHECK(join({"wohl", "-", "be", "kannt"}) == "wohl-be kannt");
  CHECK(join({"東", "京", "tower"}) == "東京 tower");
}

TEST_CASE("WordPiece: splitting into basic words and joining them are inverse on any text") {
  Random random(7);
  const std::u32string alphabet = U"aB1 \t.,:!?()[]{}\"'“”„«»-–/#@$%&*^_äé東京한\u200b\u00a0\u2028½€¿";
  for (int i = 0; i < 3000; ++i) {
    std::u32string text;
    for (uint64_t n = random.below(12); n > 0; --n) text.push_back(alphabet[random.below(alphabet.size())]);
    const auto words = words_of(to_utf8(text));
    REQUIRE(words_of(join_words(words)) == words);
  }
}

TEST_CASE("WordPiece: greedy longest match, whole words unknown") {
  const auto vocab = vocab_of("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n##a\n##ab\nU\n.\n##f\n");
  CHECK(vocab->type() == "wordpiece");
  CHECK(vocab->size() == 13);
  CHECK(vocab->eos_id() == 3);
  CHECK(vocab->unk_id() == 1);
  CHECK(pieces_of(*vocab, "unaffable unab.") == "un ##aff ##able un ##ab .");
  CHECK(pieces_of(*vocab, "unaffx un") == "[UNK] un");
  CHECK(pieces_of(*vocab, "[SEP] un") == "[UNK] [UNK] [UNK] un");  // text makes no control pieces
  CHECK(pieces_of(*vocab, fmt::format("un{:a>198}", "")).size() == 2 + 198 * 4);
  CHECK(pieces_of(*vocab, fmt::format("un{:a>199}", "")) == "[UNK]");
  CHECK(vocab->decode(ids({0, 2, 5, 6, 7, 11, 3, 3})) == "unaffable.");
  CHECK(vocab->decode(ids({6, 1})) == "##aff [UNK]");
  CHECK(complaint_of([&] { vocab->decode(ids({13})); }) == "piece id 13 is outside the vocabulary (0 to 12)");
}

TEST_CASE("WordPiece: casing follows from the pieces") {
  CHECK(pieces_of(*vocab_of("[UNK]\n[SEP]\nA\n##E"), "AÉ AE ae") == "[UNK] A ##E [UNK]");
  CHECK(pieces_of(*vocab_of("[UNK]\n[SEP]\na\n##e"), "AÉ AE ae") == "a ##e a ##e a ##e");
  CHECK(pieces_of(*vocab_of("[UNK]\n[SEP]\na\n##é"), "AÉ AE ae") == "a ##é [UNK] [UNK]");
  CHECK(pieces_of(*vocab_of("[UNK]\n[SEP]\na\nℝ\n##𝐀"), "A ℝ a𝐀") == "a ℝ a ##𝐀");  // capitals without lower case
}

TEST_CASE("WordPiece: a byte order mark is no part of a piece") {
  CHECK(pieces_of(*vocab_of("\xef\xbb\xbf[PAD]\n[UNK]\n[SEP]\na\n##e"), "AÉ AE ae") == "a ##e a ##e a ##e");
  CHECK(pieces_of(*vocab_of("\xef\xbb\xbf[UNK]\n[SEP]\na\n##e"), "AÉ b") == "a ##e [UNK]");
}

TEST_CASE("WordPiece: vocab.txt is read with either line end; what is wrong with it is said") {
  const auto vocab = vocab_of("[UNK]\r\n</s>\r\n[SEP]\r\nx\r\n");
  CHECK(vocab->eos_id() == 1);
  CHECK(vocab->find("x") == 3);
  CHECK(complaint_of([] { vocab_of("[UNK]\nx\ny\nx\n[SEP]\n"); }) ==
        "vocab.txt:4: 'x' is there twice, first in line 2");
  CHECK(complaint_of([] { vocab_of("[UNK]\n\n[SEP]\n"); }) ==
        "vocab.txt:2: an empty line, where every line is a piece");
  CHECK(complaint_of([] { vocab_of("[UNK]\n\xff\n[SEP]\n"); }) == "vocab.txt:2: not valid UTF-8");
  CHECK(complaint_of([] { vocab_of("[UNK]\nx\n"); }) ==
        "vocab.txt has no end-of-sentence piece: add a line [SEP] or </s>");
}

TEST_CASE("WordPiece: training takes the pair that raises the likelihood most") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed, 9);
    WordCounts counts;
    for (int i = 0; i < 14; ++i) {
      std::string word;
      for (uint64_t n = 1 + random.below(6); n > 0; --n) word.push_back("abac"[random.below(4)]);
      counts[word] += static_cast<int64_t>(1 + random.below(40));
    }
    std::set<std::string> alphabet;
    Words words;
    for (const auto& [word, count] : by_count(counts)) {
      std::vector<std::string> units;
      for (const char c : word) {
        alphabet.insert(std::string(1, c));
        alphabet.insert(fmt::format("##{}", c));
        units.push_back(fmt::format("{}{}", units.empty() ? "" : "##", c));
      }
      words.emplace_back(units, count);
    }
    const auto expected = reference_pieces(words, 12);
    REQUIRE(expected.size() >= 10);
    const auto size = static_cast<int>(5 + alphabet.size() + expected.size());
    const auto vocab = vocab_of(train_wordpiece(counts, size, 1.0));
    REQUIRE(vocab->size() == size);
    CHECK(vocab->piece(0) == "[PAD]");
    std::vector<std::string> made;
    for (int id = size - static_cast<int>(expected.size()); id < size; ++id) made.push_back(vocab->piece(id));
    CHECK(made == expected);
  }
}

TEST_CASE("WordPiece: sizes that do not fit the text, rare characters") {
  const WordCounts counts = {{"ab", 100}, {"ba", 98}, {"x", 1}};
  CHECK(complaint_of([&] { train_wordpiece(counts, 10, 1.0); }) ==
        "--size 10 is too small: the text has 6 single-character pieces, so at least 11 are needed");
  CHECK(complaint_of([&] { train_wordpiece(counts, 14, 1.0); }) ==
        "--size 14 is too large for this text: at most 13 pieces can be made");
  CHECK(train_wordpiece(counts, 13, 1.0) == "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\nx\n##x\nab\nba\n");
  CHECK(vocab_of(train_wordpiece(counts, 11, 0.99))->find("x") == -1);
  // Words that are too long to be encoded count for nothing.
  WordCounts more = counts;
  more[std::string(WordPieceVocab::kLongestWord + 1, 'y')] = 1000;
  CHECK(train_wordpiece(more, 13, 1.0) == train_wordpiece(counts, 13, 1.0));
  more = {{std::string(WordPieceVocab::kLongestWord, 'y'), 1}};
  CHECK_NOTHROW(train_wordpiece(more, 8, 1.0));
}

TEST_CASE("WordPiece: trained on text, deterministic, nothing of it unknown") {
  TempFolder folder;
  const auto text = invented_text(2000, 1);
  write_lines(folder / "t", text);
  const auto trained = train_vocab(training("wordpiece", 300, {folder / "t"}));
  CHECK(trained.vocab->bytes() == train_vocab(training("wordpiece", 300, {folder / "t"})).vocab->bytes());
  CHECK(trained.vocab->size() == 300);
  CHECK(trained.lines == 2000);
  const auto fit = measure_fit(*trained.vocab, trained.words, 2);
  CHECK(fit.unknown == 0);
  CHECK(fit.words == fit.known);
  for (const auto& line : text)
    REQUIRE(trained.vocab->decode(trained.vocab->encode(line)) == join_words(words_of(line)));
}

TEST_CASE("WordPiece: pieces belong to words") {
  const auto vocab = vocab_of("[UNK]\n</s>\na\n##b\n.\n##\n");
  CHECK(vocab->words_of(ids({2, 3, 3, 2, 4, 0, 5, 1})) == ids({0, 0, 0, 1, 2, 3, 4, -1}));
  CHECK(vocab->words_of(ids({3, 3, 2})) == ids({0, 0, 1}));
}
