#pragma once

#include <charconv>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/philox.h"
#include "tests/temp_folder.h"
#include "text/corpus.h"

// A vocabulary whose words are their own ids: "12 7 300" is {12, 7, 300}. Other words are unknown.
class NumberVocab : public nmt::Vocab {
 public:
  NumberVocab() : Vocab("numbers") {}
  static std::shared_ptr<const Vocab> make() { return std::make_shared<NumberVocab>(); }

  std::string type() const override { return "numbers"; }
  int size() const override { return 1 << 30; }
  int eos_id() const override { return 0; }
  int unk_id() const override { return 1; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size();) {
      const size_t end = std::min(text.find(' ', i), text.size());
      int32_t id = unk_id();
      std::from_chars(text.data() + i, text.data() + end, id);
      if (end > i) ids.push_back(id);
      i = end + 1;
    }
    return ids;
  }
  std::string decode(std::span<const int32_t> ids) const override { return fmt::format("{}", fmt::join(ids, " ")); }
  std::vector<int32_t> words_of(std::span<const int32_t> ids) const override {
    std::vector<int32_t> words(ids.size());
    std::iota(words.begin(), words.end(), 0);
    return words;
  }
  std::string piece(int id) const override { return std::to_string(id); }
  int find(std::string_view piece) const override { return encode(piece).at(0); }
  std::vector<std::pair<std::string, std::string>> properties() const override { return {}; }
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Random pairs in two files, each with 1 to `longest` tokens a side; ids of one to three bytes.
struct RandomPairs {
  struct Pair {
    std::vector<int32_t> source, target;
  };

  RandomPairs(int64_t n, int64_t longest, uint64_t seed) {
    nmt::Random random(seed, 17);
    std::ofstream source(options.train_sets[0]), target(options.train_sets[1]);
    const auto sentence = [&](std::ofstream& file) {
      std::vector<int32_t> ids(1 + random.below(static_cast<uint64_t>(longest)));
      for (auto& id : ids) id = static_cast<int32_t>(2 + random.below(uint64_t{1} << (7 * (1 + random.below(3)))));
      file << fmt::format("{}\n", fmt::join(ids, " "));
      return ids;
    };
    for (int64_t i = 0; i < n; ++i) {
      Pair pair;
      pair.source = sentence(source);
      pair.target = sentence(target);
      pairs.push_back(std::move(pair));
    }
  }

  std::shared_ptr<const nmt::Corpus> corpus(int threads = 1) const {
    return std::make_shared<const nmt::Corpus>(options, NumberVocab::make(), NumberVocab::make(), threads);
  }

  // Whether sentence i of the batch is the pair that its number says, each side with </s>.
  bool holds(const nmt::Batch& batch, size_t i) const {
    const auto side = [&](const std::vector<int32_t>& ids, const std::vector<int32_t>& begin,
                          std::vector<int32_t> expected) {
      expected.push_back(0);
      return std::vector<int32_t>(ids.begin() + begin[i], ids.begin() + begin[i + 1]) == expected;
    };
    const Pair& pair = pairs.at(static_cast<size_t>(batch.pairs[i]));
    return side(batch.source, batch.source_begin, pair.source) && side(batch.target, batch.target_begin, pair.target);
  }

  TempFolder folder;
  nmt::DataOptions options{.train_sets = {folder / "source", folder / "target"}};
  std::vector<Pair> pairs;
};
