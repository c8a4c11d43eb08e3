#include "text/vocab_trainer.h"

#include <algorithm>
#include <mutex>
#include <ranges>

#include "base/error.h"
#include "base/math.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "text/split_words.h"
#include "text/training_lines.h"
#include "text/vocab_types.h"
#include "text/vocab_words_merges.h"

namespace nmt {
void VocabTraining::declare(Options& options) {
  std::vector<std::string> names;
  for (const auto& kind : vocab_types()) names.emplace_back(kind.name);
  options.group("Vocabulary");
  options.add("type", type, "Kind of vocabulary").choices(names);
  options.add("size", size, "Number of pieces, special ones included (words: at most so many)").range(3, 1 << 24);
  options.group("Text");
  options
      .add("train-sets", train_sets,
           "Files of one sentence a line (plain, .gz, .zst, - for standard input); several make one shared vocabulary")
      .required();
  options.add("max-train-lines", max_train_lines, "Train on a random sample of so many lines, 0: on all")
      .range(0, 1e15);
  options.add("seed", seed, "Seed of the sample");
  options.group("Of some types only");
  const auto add = [&](const std::string& name, auto& value, std::string_view help) -> Option& {
    return options.add(name, value, fmt::format("{}: {}", types_that_take(name), help));
  };
  add("character-coverage", character_coverage, "Share of the text's characters that get pieces; the rest is unknown")
      .range(0.98, 1);
  add("normalization", normalization, "Unicode normalisation; cf: with case folding")
      .choices({"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"});
  add("byte-fallback", byte_fallback, "Spell unknown characters with 256 byte pieces, so nothing is unknown");
  add("user-defined-symbols", user_defined_symbols, "Words that are always one piece, in any context");
  add("lowercase", lowercase, "Lower-case the text (bpe and unigram: --normalization nmt_nfkc_cf)");
  add("min-count", min_count, "Leave out words that are less frequent").range(1, 1e15);
  add("join-bpe", join_bpe, "The text is split by `@@ `: decoding joins it again");
  add("merges", merges, "Merges file of subword-nmt: encoding splits words by it, decoding joins them again");
}

void VocabTraining::validate() const {
  VocabTraining own = *this, standard;
  Options given, defaults;
  own.declare(given);
  standard.declare(defaults);
  const VocabType& kind = vocab_type(type);
  for (const auto& option : given.all()) {
    const auto types = types_that_take(option.name());
    require(types.empty() || kind.takes(option.name()) || option.get() == defaults.find(option.name())->get(),
            "--{} is for --type {}, not {}", option.name(), types, type);
  }
  require(!train_sets.empty(), "--train-sets names no file");
  for (const auto& symbol : user_defined_symbols) {
    require(is_valid_utf8(symbol), "--user-defined-symbols: '{}' is not valid UTF-8", repair_utf8(symbol));
    require(split_words(symbol) == std::vector{std::string_view(symbol)},
            "--user-defined-symbols: '{}' is not one word", symbol);
    require(symbol != "<unk>" && symbol != "</s>", "--user-defined-symbols: {} is a piece of every vocabulary", symbol);
    const auto is_byte = [&](int byte) { return symbol == fmt::format("<0x{:02X}>", byte); };
    require(!byte_fallback || std::ranges::none_of(std::views::iota(0, 256), is_byte),
            "--user-defined-symbols: {} is a piece of --byte-fallback", symbol);
    require(std::ranges::count(user_defined_symbols, symbol) == 1, "--user-defined-symbols: '{}' is given twice",
            symbol);
  }
  require(seed == standard.seed || max_train_lines > 0, "--seed is of the sample of --max-train-lines");
}

std::string VocabFit::text() const {
  const auto share = [](int64_t part, int64_t whole) {
    return percent(static_cast<double>(part), static_cast<double>(whole));
  };
  return fmt::format("coverage {:.3f}% of {} words, {:.4f} pieces a word, {:.3f}% of them unknown", share(known, words),
                     words, words == 0 ? 0.0 : static_cast<double>(pieces) / static_cast<double>(words),
                     share(unknown, pieces));
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
      const auto ids = vocab.encode_line(word).ids;
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
  s.validate();
  TrainingLines lines(s.train_sets, s.max_train_lines, s.seed);
  TrainedVocab trained;
  const auto next = [&](std::string& line) {
    if (!lines.next(line)) return false;
    ++trained.lines;
    count_words(s.merges.empty() ? line : join_bpe(line), trained.words);
    return true;
  };
  std::string bytes = vocab_type(s.type).train(s, {next, trained.words});
  require(!bytes.empty(), "there is no text to learn from in {}", fmt::join(s.train_sets, ", "));
  trained.vocab = Vocab::from_bytes(std::move(bytes), "the trained vocabulary");
  return trained;
}

}  // namespace nmt
