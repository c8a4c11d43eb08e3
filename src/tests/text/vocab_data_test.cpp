#include <cstdlib>

#include "base/line_reader.h"
#include "tests/text/vocab_fixture.h"
#include "text/split_words.h"
#include "text/vocab_wordpiece_tokens.h"
#include "text/vocab_words_merges.h"

using namespace nmt;

namespace {

const char* data_folder(const char* test) {
  const char* folder = std::getenv("NMT_DATA");
  if (folder == nullptr) WARN("SKIPPED: '" << test << "' needs the folder NMT_DATA");
  return folder;
}

// Up to `most` lines of every text below a folder, spread over it.
std::vector<std::string> sample_of_all(const std::string& folder, int most) {
  std::vector<std::string> paths, sample;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() != ".md") paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const auto& path : paths) {
    const auto lines = read_lines(path);
    const size_t step = std::max<size_t>(1, lines.size() / static_cast<size_t>(most));
    for (size_t i = 0; i < lines.size(); i += step) sample.push_back(lines[i]);
  }
  return sample;
}

std::string without_space(std::string text) {
  std::erase_if(text, [](char c) { return std::string_view(" \t\r\n\v\f").find(c) != std::string_view::npos; });
  return text;
}

bool printable_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

// What decode(encode(text)) should be where nothing of the text is unknown.
std::string normalised(const std::string& text, const Vocab& vocab, const VocabTraining& settings) {
  if (settings.type == "wordpiece")
    return join_words(basic_words(text, {.lowercase = settings.lowercase, .strip_accents = false}));
  if (settings.join_bpe) return join_bpe(repair_utf8(text));
  if (settings.type == "words") return fmt::format("{}", fmt::join(split_words(repair_utf8(text)), " "));
  // SentencePiece: what its pieces spell. One is a text with marks for spaces, the first of them before the first word,
  // or a byte such as <0xE4>.
  std::string result;
  for (const int32_t id : vocab.encode(text)) {
    const std::string piece = vocab.piece(id);
    if (piece.size() == 6 && piece.starts_with("<0x"))
      result.push_back(static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
    else
      result += piece;
  }
  const std::string_view mark = "\u2581";
  for (size_t at; (at = result.find(mark)) != result.npos;) result.replace(at, mark.size(), " ");
  result.erase(0, 1);
  return result;
}

}  // namespace

TEST_CASE("round trip over all texts: decode(encode(x)) is x normalised") {
  const char* folder = data_folder("round trip over all texts");
  if (folder == nullptr) return;
  const auto text = sample_of_all(folder, 120);
  REQUIRE(text.size() > 1000);
  TempFolder temp;
  write_lines(temp / "t", text);
  auto nfkc = training("bpe", 4000, {temp / "t"}), identity = training("unigram", 4000, {temp / "t"}),
       bytes = training("bpe", 3000, {temp / "t"}), pieces = training("wordpiece", 4000, {temp / "t"}),
       lower = training("wordpiece", 3000, {temp / "t"}), words = training("words", 1 << 20, {temp / "t"}),
       joined = words;
  identity.normalization = "identity";
  bytes.byte_fallback = true;
  bytes.character_coverage = 0.98;
  lower.lowercase = true;
  joined.join_bpe = true;
  for (const auto& settings : {nfkc, identity, bytes, pieces, lower, words, joined}) {
    const auto vocab = train_vocab(settings).vocab;
    INFO(settings.type << ' ' << settings.normalization << (settings.lowercase ? " lower-case" : ""));
    for (const auto& line : text) {
      INFO(line);
      const auto encoded = vocab->encode(line);
      for (const int32_t id : encoded) REQUIRE((id >= 0 && id < vocab->size() && id != vocab->eos_id()));
      // Trained on this text with all its characters, but SentencePiece learns no tabs.
      if (settings.normalization == "identity" && line.find('\t') != line.npos) continue;
      REQUIRE(std::ranges::count(encoded, vocab->unk_id()) == 0);
      const std::string normal = vocab->decode(encoded);
      REQUIRE(normal == normalised(line, *vocab, settings));
      REQUIRE(normal == normalised(normal, *vocab, settings));
      // What normalisation may change, said once more without it.
      if (printable_ascii(line) && !settings.lowercase && !settings.join_bpe) {
        REQUIRE(without_space(normal) == without_space(line));
        if (settings.type != "wordpiece") REQUIRE(normal == fmt::format("{}", fmt::join(split_words(line), " ")));
      }
    }
  }
}

TEST_CASE("merges of subword-nmt: Multi30k as published") {
  const char* folder = data_folder("merges of subword-nmt");
  if (folder == nullptr) return;
  const std::string base = std::string(folder) + "/multi30k-bpe/";
  const auto merges = BpeMerges::load(base + "code");
  CHECK(merges.merges().size() == 10000);
  for (const std::string name : {"train.en", "train.de", "valid.en", "test.2016.en", "test.2016.de"}) {
    auto lines = read_lines(base + name);
    lines.resize(std::min<size_t>(lines.size(), 6000));
    for (const auto& line : lines) {
      std::vector<std::string> pieces;
      const std::string raw = join_bpe(line);
      for (const auto word : split_words(raw))
        for (auto& piece : merges.split(word)) pieces.push_back(std::move(piece));
      REQUIRE(fmt::format("{}", fmt::join(pieces, " ")) == line);
    }
  }
  auto settings = training("words", 1 << 20, {base + "train.en", base + "train.de"});
  settings.join_bpe = true;
  const auto split = train_vocab(settings).vocab;
  settings.merges = base + "code";
  const auto merging = train_vocab(settings).vocab;
  CHECK(split->size() == merging->size());
  for (const auto& line : read_lines(base + "test.2016.de")) {
    const std::string raw = join_bpe(line);
    REQUIRE(merging->decode(split->encode(line)) == split->decode(merging->encode(raw)));
    const auto encoded = merging->encode(raw);
    if (std::ranges::count(encoded, merging->unk_id()) == 0) REQUIRE(merging->decode(encoded) == raw);
  }
}
