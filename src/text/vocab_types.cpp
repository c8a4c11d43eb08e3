#include "text/vocab_types.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "text/lowercase.h"
#include "text/vocab_sentencepiece.h"
#include "text/vocab_sentencepiece_trainer.h"
#include "text/vocab_trainer.h"
#include "text/vocab_wordpiece.h"
#include "text/vocab_wordpiece_trainer.h"
#include "text/vocab_words.h"

namespace nmt {
namespace {

template <class T>
std::shared_ptr<const Vocab> load(std::string bytes, const std::string& name) {
  return std::make_shared<T>(std::move(bytes), name);
}

std::string train_library(const VocabTraining& s, const TrainingText& text) {
  return train_sentencepiece(s, text.next);
}

void read_all(const TrainingText& text) {
  for (std::string line; text.next(line);) continue;
}

std::string train_basic_words(const VocabTraining& s, const TrainingText& text) {
  read_all(text);
  if (text.words.empty()) return {};
  WordCounts prepared;
  for (const auto& [raw, count] : by_count(text.words))
    for (const auto& word : basic_words(raw, {.lowercase = s.lowercase, .strip_accents = false}))
      prepared[word] += count;
  return train_wordpiece(prepared, s.size, s.character_coverage);
}

std::string train_words(const VocabTraining& s, const TrainingText& text) {
  BpeMerges merges;
  if (!s.merges.empty()) merges = BpeMerges::load(s.merges);
  read_all(text);
  if (text.words.empty()) return {};
  WordCounts prepared;
  for (const auto& [raw, count] : by_count(text.words)) {
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

}  // namespace

std::span<const VocabType> vocab_types() {
  constexpr std::string_view kLibrary = "a SentencePiece model";
  static const std::vector<std::string_view> library_options = {"character-coverage", "normalization", "byte-fallback",
                                                                "user-defined-symbols"};
  static const VocabType types[] = {
      {"bpe", kLibrary, SentencePieceVocab::recognises, load<SentencePieceVocab>, train_library, library_options},
      {"unigram", kLibrary, SentencePieceVocab::recognises, load<SentencePieceVocab>, train_library, library_options},
      // Before wordpiece, as [UNK] may be one of the words.
      {"words",
       "a file that begins with #nmt-words",
       WordsVocab::recognises,
       load<WordsVocab>,
       train_words,
       {"lowercase", "min-count", "join-bpe", "merges"}},
      {"wordpiece",
       "a vocab.txt with the line [UNK]",
       WordPieceVocab::recognises,
       load<WordPieceVocab>,
       train_basic_words,
       {"character-coverage", "lowercase"}},
  };
  return types;
}

bool VocabType::takes(std::string_view option) const { return std::ranges::count(options, option) > 0; }

const VocabType& vocab_type(std::string_view name) {
  const auto found = std::ranges::find(vocab_types(), name, &VocabType::name);
  check(found != vocab_types().end(), "there is no vocabulary type {}", name);
  return *found;
}

std::string types_that_take(std::string_view option) {
  std::vector<std::string_view> names;
  for (const auto& type : vocab_types())
    if (type.takes(option)) names.push_back(type.name);
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} and {}", fmt::join(std::span(names).first(names.size() - 1), ", "), names.back());
}

}  // namespace nmt
