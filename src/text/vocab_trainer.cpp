#include "text/vocab_trainer.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "text/vocab_lines.h"
#include "text/vocab_sentencepiece_trainer.h"
#include "text/wordpiece_tokens.h"
#include "text/wordpiece_trainer.h"
#include "text/words.h"

namespace nmt {
namespace {

// Options of one kind of vocabulary are refused for the others, not ignored.
void check_options(const VocabTraining& s) {
  const VocabTraining defaults;
  const bool words = s.type == "words", wordpiece = s.type == "wordpiece", library = !words && !wordpiece;
  const auto only = [&](bool used, bool fits, std::string_view option, std::string_view types) {
    require(!used || fits, "--{} is for --type {}, not {}", option, types, s.type);
  };
  constexpr std::string_view kLibrary = "bpe and unigram";
  only(s.lowercase, !library, "lowercase", "wordpiece and words (for the others: --normalization nmt_nfkc_cf)");
  only(s.character_coverage != defaults.character_coverage, !words, "character-coverage", "bpe, unigram and wordpiece");
  only(s.normalization != defaults.normalization, library, "normalization", kLibrary);
  only(s.byte_fallback, library, "byte-fallback", kLibrary);
  only(!s.user_defined_symbols.empty(), library, "user-defined-symbols", kLibrary);
  only(s.min_count != defaults.min_count, words, "min-count", "words");
  only(s.join_bpe, words, "join-bpe", "words");
  only(!s.merges.empty(), words, "merges", "words");
  require(!s.train_sets.empty(), "--train-sets names no file");
  for (const auto& symbol : s.user_defined_symbols)
    require(split_words(symbol) == std::vector{std::string_view(symbol)},
            "--user-defined-symbols: '{}' is not one word", symbol);
}

std::string train_words(const VocabTraining& s, BpeMerges merges, const WordCounts& counts) {
  WordCounts prepared;
  for (const auto& [raw, count] : by_count(counts)) {
    const std::string word = s.lowercase ? lowercase(raw) : raw;
    if (merges.empty())
      prepared[word] += count;
    else
      for (const auto& piece : merges.split(word)) prepared[piece] += count;
  }
  const bool join = s.join_bpe || !merges.empty();
  return WordsVocab::train(prepared, s.size, s.min_count,
                           {.join = join, .lowercase = s.lowercase, .merges = std::move(merges)});
}

std::string train_basic_words(const VocabTraining& s, const WordCounts& counts) {
  WordCounts prepared;
  for (const auto& [raw, count] : by_count(counts))
    for (const auto& word : basic_words(raw, {.lowercase = s.lowercase, .strip_accents = false}))
      prepared[word] += count;
  return train_wordpiece(prepared, s.size, s.character_coverage);
}

}  // namespace

void VocabTraining::declare(Options& options) {
  options.group("Vocabulary");
  options.add("type", type, "Kind of vocabulary").choices({"bpe", "unigram", "wordpiece", "words"});
  options.add("size", size, "Number of pieces, special ones included (words: at most so many)").range(3, 1 << 24);
  options.group("Text");
  options
      .add("train-sets", train_sets,
           "Files of one sentence a line (plain, .gz, .zst, - for standard input); several make one shared vocabulary")
      .required();
  options.add("max-train-lines", max_train_lines, "Train on a random sample of so many lines, 0: on all")
      .range(0, 1e15);
  options.add("seed", seed, "Seed of the sample");
  options.group("BPE and unigram (SentencePiece), WordPiece");
  options
      .add("character-coverage", character_coverage,
           "Share of the text's characters that get pieces; the rarest rest is unknown")
      .range(0.98, 1);
  options.group("BPE and unigram (SentencePiece)");
  options.add("normalization", normalization, "Unicode normalisation; cf: with case folding")
      .choices({"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"});
  options.add("byte-fallback", byte_fallback, "Spell unknown characters with 256 byte pieces, so nothing is unknown");
  options.add("user-defined-symbols", user_defined_symbols, "Words that are always one piece, in any context");
  options.group("WordPiece and words");
  options.add("lowercase", lowercase, "Lower-case the text");
  options.group("Words");
  options.add("min-count", min_count, "Leave out words that are less frequent").range(1, 1e15);
  options.add("join-bpe", join_bpe, "The text is split by `@@ `: decoding joins it again");
  options.add("merges", merges, "Merges file of subword-nmt: encoding splits words by it, decoding joins them again");
}

std::string VocabFit::text() const {
  const auto percent = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  return fmt::format(
      std::locale::classic(), "coverage {:.3f}% of {} words, {:.4f} pieces a word, {:.3f}% of them unknown",
      percent(known, words), words, words == 0 ? 0.0 : static_cast<double>(pieces) / static_cast<double>(words),
      percent(unknown, pieces));
}

void count_words(std::string_view text, WordCounts& counts) {
  for (const std::string_view word : split_words(text)) ++counts[std::string(word)];
}

VocabFit measure_fit(const Vocab& vocab, const WordCounts& words, int threads) {
  const auto sorted = by_count(words);
  VocabFit fit;
  std::mutex mutex;
  ThreadPool(threads).parallel_for(static_cast<int64_t>(sorted.size()), 1024, [&](int64_t begin, int64_t end) {
    VocabFit part;
    for (int64_t i = begin; i < end; ++i) {
      const auto& [word, count] = sorted[static_cast<size_t>(i)];
      const auto ids = vocab.encode(word);
      const auto unknown = std::ranges::count(ids, vocab.unk_id());
      part.words += count;
      part.known += unknown == 0 ? count : 0;
      part.pieces += count * static_cast<int64_t>(ids.size());
      part.unknown += count * unknown;
    }
    const std::lock_guard lock(mutex);
    fit.words += part.words;
    fit.known += part.known;
    fit.pieces += part.pieces;
    fit.unknown += part.unknown;
  });
  return fit;
}

TrainedVocab train_vocab(const VocabTraining& s) {
  check_options(s);
  BpeMerges merges;
  if (!s.merges.empty()) merges = BpeMerges::load(s.merges);
  TrainingLines lines(s.train_sets, s.max_train_lines, s.seed);
  TrainedVocab trained;
  const auto next = [&](std::string& line) {
    if (!lines.next(line)) return false;
    ++trained.lines;
    count_words(merges.empty() ? line : join_bpe(line), trained.words);
    return true;
  };
  std::string bytes;
  if (s.type == "words" || s.type == "wordpiece") {
    for (std::string line; next(line);) {
    }
    if (!trained.words.empty())
      bytes =
          s.type == "words" ? train_words(s, std::move(merges), trained.words) : train_basic_words(s, trained.words);
  } else {
    bytes = train_sentencepiece({.type = s.type,
                                 .size = s.size,
                                 .character_coverage = s.character_coverage,
                                 .normalization = s.normalization,
                                 .byte_fallback = s.byte_fallback,
                                 .user_defined_symbols = s.user_defined_symbols},
                                next);
  }
  require(!bytes.empty(), "there is no text to learn from in {}", fmt::join(s.train_sets, ", "));
  trained.vocab = Vocab::from_bytes(std::move(bytes), "the trained vocabulary");
  return trained;
}

}  // namespace nmt
