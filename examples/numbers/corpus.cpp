#include "corpus.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/line_reader.h"

namespace nmt::numbers {
namespace {

constexpr int64_t kShortest = 6, kLongest = 25;  // English words of a sentence

int64_t count_words(const std::string& line) { return std::count(line.begin(), line.end(), ' ') + 1; }

bool fits(const std::string& english) {
  const int64_t words = count_words(english);
  return words >= kShortest && words <= kLongest;
}

bool belongs(const std::string& english, Part part) {
  const auto found = values(english);
  return !found.empty() && std::all_of(found.begin(), found.end(), [part](auto& v) { return part_of(v) == part; });
}

void write_lines(const std::string& path, const std::vector<Pair>& pairs, std::string Pair::*side) {
  AtomicFile file(path);
  for (const Pair& pair : pairs) {
    file.write(pair.*side);
    file.write("\n");
  }
  file.commit();
}

std::vector<Pair> read_part(const std::string& folder, const std::string& part) {
  const std::string path = folder + '/' + part;
  std::vector<std::string> en = read_lines(path + ".en"), de = read_lines(path + ".de");
  require(en.size() == de.size(), "{}.en has {} lines and {}.de has {}: write the corpus again", path, en.size(), path,
          de.size());
  std::vector<Pair> pairs;
  pairs.reserve(en.size());
  for (size_t i = 0; i < en.size(); ++i) pairs.push_back({std::move(en[i]), std::move(de[i])});
  return pairs;
}

// Lower-case words without punctuation, compounds in parts; numerals are left out.
std::vector<std::string> plain_words(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == ' ' || c == '-') {
      words.emplace_back();
    } else if (std::string_view(".,?").find(c) == std::string_view::npos) {
      words.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  std::erase_if(words, [](auto& word) { return word.empty() || word.find_first_of("0123456789") != word.npos; });
  return words;
}

}  // namespace

std::vector<Pair> generate(Part part, int64_t count, uint64_t seed) {
  Random random(seed, static_cast<uint64_t>(part));
  std::vector<size_t> turns(std::size(kCarriers));
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = i;
  std::vector<Pair> pairs;
  std::unordered_set<std::string> seen;
  while (std::ssize(pairs) < count) {
    const size_t before = pairs.size();
    random.shuffle(turns);
    for (const size_t turn : turns) {
      if (std::ssize(pairs) == count) break;
      // A sentence with two values has a chance of 1 in 256 to lie in a held-out part.
      for (int tries = 0; tries < 2000; ++tries) {
        auto pair = write_sentence(kCarriers[turn], random);
        if (!pair || !fits(pair->en) || !belongs(pair->en, part) || !seen.insert(pair->en).second) continue;
        pairs.push_back(std::move(*pair));
        break;
      }
    }
    require(pairs.size() > before, "the carriers give only {} sentences of this kind: ask for fewer", before);
  }
  return pairs;
}

void write_corpus(const std::string& folder, const Sizes& sizes, uint64_t seed) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, "cannot make the folder {}: {}", folder, error.message());
  const std::tuple<const char*, Part, int64_t> parts[] = {
      {"train", Part::kTrain, sizes.train}, {"dev", Part::kDev, sizes.dev}, {"test", Part::kTest, sizes.test}};
  for (const auto& [name, part, count] : parts) {
    const auto pairs = generate(part, count, seed);
    write_lines(fmt::format("{}/{}.en", folder, name), pairs, &Pair::en);
    write_lines(fmt::format("{}/{}.de", folder, name), pairs, &Pair::de);
  }
}

Report examine(const std::string& folder) {
  Report report;
  const char* const names[] = {"train", "dev", "test"};
  Report::PartReport* const parts[] = {&report.train, &report.dev, &report.test};
  std::array<std::set<std::string>, 3> part_values;
  std::set<std::string> train_words;
  std::unordered_map<std::string, std::string> translation;
  for (size_t p = 0; p < 3; ++p) {
    std::set<std::string> words;
    for (const Pair& pair : read_part(folder, names[p])) {
      Report::PartReport& part = *parts[p];
      ++part.pairs;
      part.english_words += count_words(pair.en);
      part.german_words += count_words(pair.de);
      const auto [at, fresh] = translation.emplace(pair.en, pair.de);
      if (!fresh) ++(at->second == pair.de ? report.duplicates : report.ambiguous);
      const auto found = values(pair.en);
      report.without_value += found.empty();
      report.outside += !fits(pair.en);
      part_values[p].insert(found.begin(), found.end());
      for (const auto& word : plain_words(pair.en)) words.insert(word);
    }
    if (p == 0)
      train_words = std::move(words);
    else
      parts[p]->unseen_words =
          std::count_if(words.begin(), words.end(), [&](auto& w) { return !train_words.contains(w); });
  }
  for (size_t p = 0; p < 3; ++p) {
    parts[p]->values = std::ssize(part_values[p]);
    for (const auto& value : part_values[p])
      for (size_t other = 0; other < p; ++other) parts[p]->known_values += part_values[other].contains(value);
  }
  return report;
}

bool Report::sound() const {
  return duplicates == 0 && ambiguous == 0 && without_value == 0 && outside == 0 && dev.known_values == 0 &&
         test.known_values == 0;
}

std::string Report::text() const {
  std::string text;
  for (const auto& [name, part] : {std::pair{"train", &train}, std::pair{"dev", &dev}, std::pair{"test", &test}}) {
    const double pairs = static_cast<double>(std::max<int64_t>(part->pairs, 1));
    text += fmt::format("{}: {} pairs, {:.1f} English and {:.1f} German words each, {} different values", name,
                        part->pairs, static_cast<double>(part->english_words) / pairs,
                        static_cast<double>(part->german_words) / pairs, part->values);
    if (part != &train)
      text += fmt::format(", {} of them known from other parts, {} words not in training", part->known_values,
                          part->unseen_words);
    text += '\n';
  }
  text += fmt::format("duplicate pairs: {}\nEnglish sentences with two translations: {}\n", duplicates, ambiguous);
  text += fmt::format("sentences without a value: {}\nsentences outside {} to {} words: {}\n", without_value, kShortest,
                      kLongest, outside);
  return text;
}

void write_baselines(const std::string& folder) {
  const auto train = read_part(folder, "train");
  const auto test = read_lines(folder + "/test.en");
  require(!train.empty(), "{}/train.en is empty: there is no nearest pair", folder);
  const auto grams_of = [](const std::string& line) {  // different 4-grams of bytes
    std::vector<uint32_t> grams;
    for (size_t i = 0; i + 4 <= line.size(); ++i) {
      uint32_t gram = 0;
      for (size_t k = 0; k < 4; ++k) gram = gram << 8 | static_cast<unsigned char>(line[i + k]);
      grams.push_back(gram);
    }
    std::sort(grams.begin(), grams.end());
    grams.erase(std::unique(grams.begin(), grams.end()), grams.end());
    return grams;
  };
  std::unordered_map<uint32_t, std::vector<uint32_t>> lines_with;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < train.size(); ++i) {
    const auto grams = grams_of(train[i].en);
    sizes.push_back(grams.size());
    for (const uint32_t gram : grams) lines_with[gram].push_back(static_cast<uint32_t>(i));
  }
  AtomicFile copy(folder + "/baseline.copy.de"), nearest(folder + "/baseline.nearest.de");
  std::vector<uint32_t> shared(train.size());
  for (const std::string& line : test) {
    std::fill(shared.begin(), shared.end(), 0);
    const auto grams = grams_of(line);
    for (const uint32_t gram : grams)
      if (const auto found = lines_with.find(gram); found != lines_with.end())
        for (const uint32_t i : found->second) ++shared[i];
    size_t best = 0;
    double best_score = -1;
    for (size_t i = 0; i < train.size(); ++i) {
      const double score = 2.0 * shared[i] / static_cast<double>(std::max<size_t>(grams.size() + sizes[i], 1));
      if (score > best_score) best = i, best_score = score;
    }
    copy.write(line);
    copy.write("\n");
    nearest.write(train[best].de);
    nearest.write("\n");
  }
  copy.commit();
  nearest.commit();
}

}  // namespace nmt::numbers
