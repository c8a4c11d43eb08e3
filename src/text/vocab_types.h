#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocab.h"
#include "text/vocab_counts.h"

namespace nmt {

struct VocabTraining;

// A text to learn from, read once.
struct TrainingText {
  std::function<bool(std::string&)> next;  // gives the next line; false at the end
  const WordCounts& words;                 // of the lines given so far
};

// All that sets one kind of vocabulary apart from the others.
struct VocabType {
  std::string_view name;  // of --type
  std::string_view file;  // what its file is, for messages

  // Whether the bytes may be such a file; load() then says what is wrong with them.
  bool (*recognises)(std::string_view bytes);

  // Reads a file's bytes; throws UserError, naming the file, where they are damaged.
  std::shared_ptr<const Vocab> (*load)(std::string bytes, const std::string& name);

  // Learns from the text, which it reads to its end; returns the file's bytes, none where there is no text. Throws
  // UserError where the settings do not fit the text.
  std::string (*train)(const VocabTraining& settings, const TrainingText& text);

  // The options that it takes besides those of every type, which no type lists.
  std::vector<std::string_view> options;

  bool takes(std::string_view option) const;
};

// The table of all of them. A file is of the first that recognises it.
std::span<const VocabType> vocab_types();

// `name` is one of them.
const VocabType& vocab_type(std::string_view name);

// The names of the types that take this option, "a, b and c"; empty: it is one of every type.
std::string types_that_take(std::string_view option);

}  // namespace nmt
