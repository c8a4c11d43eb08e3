#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/utf8.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"
#include "text/vocab_trainer.h"

// Sentences of invented words: syllables with umlauts and accents, frequent words more often, some punctuation.
inline std::vector<std::string> invented_text(int lines, uint64_t seed) {
  const std::vector<std::string> syllables = {"ka", "to", "mi", "rü", "sch", "len", "é", "ñu", "os", "ter", "q", "ßa"};
  nmt::Random random(seed, 5);
  std::vector<std::string> words(400);
  for (auto& word : words)
    for (uint64_t n = 1 + random.below(4); n > 0; --n) word += syllables[random.below(syllables.size())];
  std::vector<std::string> text(static_cast<size_t>(lines));
  for (auto& line : text) {
    for (uint64_t n = 3 + random.below(9); n > 0; --n)
      line += fmt::format("{}{}", line.empty() ? "" : " ", words[random.below(1 + random.below(words.size()))]);
    line += random.below(3) == 0 ? ", 3.5 ?" : ".";
  }
  return text;
}

inline void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream file(path, std::ios::binary);
  for (const auto& line : lines) file << line << '\n';
}

inline nmt::VocabTraining training(const std::string& type, int size, std::vector<std::string> files) {
  nmt::VocabTraining settings;
  settings.type = type;
  settings.size = size;
  settings.train_sets = std::move(files);
  if (type != "words") settings.character_coverage = 1;
  return settings;
}

inline std::vector<int32_t> ids(std::initializer_list<int32_t> list) { return list; }
