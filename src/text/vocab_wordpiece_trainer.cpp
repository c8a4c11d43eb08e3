#include "text/vocab_wordpiece_trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/utf8.h"
#include "text/vocab_wordpiece.h"

namespace nmt {
namespace {

constexpr auto& kSpecial = WordPieceVocab::kSpecial;
constexpr auto kContinues = WordPieceVocab::kContinues;

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

double f(int64_t n) { return n <= 0 ? 0.0 : static_cast<double>(n) * std::log(static_cast<double>(n)); }

// Pairs of neighbouring units, the best on top; a pair knows its place, so that a changed gain moves it there.
class PairHeap {
 public:
  struct Pair {
    int32_t left = 0, right = 0;
    int64_t count = 0;
    double gain = 0;
    int32_t place = -1;          // in the heap, -1: not there
    std::vector<int32_t> words;  // where it may occur; a word may be there twice
  };

  explicit PairHeap(const std::vector<std::string>& units) : units_(units) {}

  Pair& operator[](int32_t pair) { return pairs_[pair]; }
  bool empty() const { return heap_.empty(); }
  int32_t top() const { return heap_[0]; }

  int32_t add(int32_t left, int32_t right) {
    pairs_.push_back({.left = left, .right = right, .words = {}});
    return static_cast<int32_t>(pairs_.size()) - 1;
  }

  // Puts a pair where its gain belongs; without occurrences it leaves the heap.
  void update(int32_t pair) {
    Pair& p = pairs_[pair];
    if (p.count <= 0) {
      if (p.place >= 0) remove(p.place);
      return;
    }
    if (p.place < 0) {
      p.place = static_cast<int32_t>(heap_.size());
      heap_.push_back(pair);
    }
    down(up(p.place));
  }

 private:
  bool better(int32_t a, int32_t b) const {
    const Pair &x = pairs_[a], &y = pairs_[b];
    if (x.gain != y.gain) return x.gain > y.gain;
    return std::tie(units_[x.left], units_[x.right]) < std::tie(units_[y.left], units_[y.right]);
  }
  void put(int32_t place, int32_t pair) {
    heap_[place] = pair;
    pairs_[pair].place = place;
  }
  int32_t up(int32_t place) {
    const int32_t pair = heap_[place];
    for (; place > 0 && better(pair, heap_[(place - 1) / 2]); place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    put(place, pair);
    return place;
  }
  void down(int32_t place) {
    const int32_t pair = heap_[place], n = static_cast<int32_t>(heap_.size());
    for (int32_t child; (child = 2 * place + 1) < n; place = child) {
      if (child + 1 < n && better(heap_[child + 1], heap_[child])) ++child;
      if (!better(heap_[child], pair)) break;
      put(place, heap_[child]);
    }
    put(place, pair);
  }
  void remove(int32_t place) {
    pairs_[heap_[place]].place = -1;
    const int32_t last = heap_.back();
    heap_.pop_back();
    if (place == static_cast<int32_t>(heap_.size())) return;
    put(place, last);
    down(up(place));
  }

  const std::vector<std::string>& units_;
  std::vector<Pair> pairs_;
  std::vector<int32_t> heap_;
};

class PieceTrainer {
 public:
  PieceTrainer(const WordCounts& words, double coverage) : pairs_(units_) {
    auto sorted = by_count(words);
    std::erase_if(sorted, [](const auto& word) {  // what is never encoded teaches nothing, and takes long
      return std::ranges::count_if(word.first, begins_character) > WordPieceVocab::kLongestWord;
    });
    const auto alphabet = characters(sorted, coverage);
    for (const auto& [word, count] : sorted) add_word(to_utf32(word), count, alphabet);
    for (size_t w = 0; w < words_.size(); ++w) count_pairs(static_cast<int32_t>(w), 1);
    refresh(touched_);
  }

  int alphabet_size() const { return alphabet_size_; }
  const std::vector<std::string>& units() const { return units_; }

  // Adds the best unit; false if no two units are neighbours any more.
  bool step() {
    // With every step N falls, and with it every gain: a stored gain is an upper bound, so the top is the best as soon
    // as its gain is up to date.
    while (!pairs_.empty()) {
      const int32_t best = pairs_.top();
      const double now = gain(pairs_[best]);
      if (now < pairs_[best].gain) {
        pairs_[best].gain = now;
        pairs_.update(best);
        if (pairs_.top() != best) continue;
      }
      merge(best);
      return true;
    }
    return false;
  }

 private:
  struct Word {
    std::vector<int32_t> units;
    int64_t count = 0;
    int32_t stamp = -1;  // the last merge that looked at it
  };

  static std::set<char32_t> characters(const std::vector<std::pair<std::string, int64_t>>& words, double coverage) {
    WordCounts counts;
    int64_t all = 0, covered = 0;
    for (const auto& [word, count] : words)
      for (const char32_t c : to_utf32(word)) {
        counts[to_utf8(std::u32string_view(&c, 1))] += count;
        all += count;
      }
    std::set<char32_t> kept;
    for (const auto& [character, count] : by_count(counts)) {
      if (static_cast<double>(covered) >= coverage * static_cast<double>(all)) break;
      kept.insert(to_utf32(character)[0]);
      covered += count;
    }
    return kept;
  }

  int32_t unit(const std::string& text) {
    const auto [it, added] = ids_.try_emplace(text, static_cast<int32_t>(units_.size()));
    if (added) {
      units_.push_back(text);
      counts_.push_back(0);
      pairs_of_.emplace_back();
    }
    return it->second;
  }

  void add_word(const std::u32string& word, int64_t count, const std::set<char32_t>& alphabet) {
    Word added{.units = {}, .count = count};
    for (const char32_t c : word) {
      if (!alphabet.contains(c)) return;
      const std::string text = to_utf8(std::u32string_view(&c, 1));
      // Both forms of a letter are units, so that no word of known letters is unknown.
      const int32_t start = unit(text);
      added.units.push_back(stands_alone(c) ? start : unit(fmt::format("{}{}", kContinues, text)));
      if (added.units.size() == 1) added.units[0] = start;
    }
    for (const int32_t u : added.units) counts_[u] += count;
    total_ += count * static_cast<int64_t>(added.units.size());
    alphabet_size_ = static_cast<int>(units_.size());
    if (added.units.size() > 1) words_.push_back(std::move(added));
  }

  double gain(const PairHeap::Pair& p) const {
    const int64_t n = p.count, a = counts_[p.left], b = counts_[p.right];
    const double parts = p.left == p.right ? f(a - 2 * n) - f(a) : f(a - n) - f(a) + f(b - n) - f(b);
    // f(N) - f(N - n), written so that large N does not cancel.
    const auto total = static_cast<double>(total_), x = static_cast<double>(n);
    const double model = n < total_ ? x * std::log(total) - (total - x) * std::log1p(-x / total) : f(total_);
    // Rounded, so that equal gains are equal whatever the logarithms' last bits are.
    return std::round((f(n) + parts + model) * 0x1.0p20) * 0x1.0p-20;
  }

  // Adds or takes away a word's pairs; of a run of equal units every second pair counts.
  void count_pairs(int32_t word, int sign) {
    const auto& [units, count, stamp] = words_[word];
    bool last_was_twin = false;
    for (size_t i = 1; i < units.size(); ++i) {
      const bool twin = units[i - 1] == units[i] && !(last_was_twin && units[i - 2] == units[i]);
      if (units[i - 1] == units[i] && !twin) {
        last_was_twin = false;
        continue;
      }
      last_was_twin = twin;
      const auto [it, added] = index_.try_emplace(key_of(units[i - 1], units[i]), 0);
      if (added) {
        it->second = pairs_.add(units[i - 1], units[i]);
        pairs_of_[units[i - 1]].push_back(it->second);
        if (units[i - 1] != units[i]) pairs_of_[units[i]].push_back(it->second);
      }
      auto& pair = pairs_[it->second];
      pair.count += sign * count;
      if (sign > 0 && (pair.words.empty() || pair.words.back() != word)) pair.words.push_back(word);
      touched_.push_back(it->second);
    }
  }

  void refresh(std::vector<int32_t>& changed) {
    for (const int32_t pair : changed) {
      pairs_[pair].gain = gain(pairs_[pair]);
      pairs_.update(pair);
    }
    changed.clear();
  }

  void merge(int32_t best) {
    const int32_t left = pairs_[best].left, right = pairs_[best].right;
    const int32_t made = unit(units_[left] + units_[right].substr(kContinues.size()));
    ++stamp_;
    const std::vector<int32_t> occurrences = std::move(pairs_[best].words);
    for (const int32_t w : occurrences) {
      Word& word = words_[w];
      if (std::exchange(word.stamp, stamp_) == stamp_) continue;
      if (!contains(word.units, left, right)) continue;
      count_pairs(w, -1);
      size_t kept = 0;
      for (size_t i = 0; i < word.units.size(); ++i) {
        const bool join = i + 1 < word.units.size() && word.units[i] == left && word.units[i + 1] == right;
        word.units[kept++] = join ? made : word.units[i];
        if (!join) continue;
        ++i;
        counts_[left] -= word.count;
        counts_[right] -= word.count;
        counts_[made] += word.count;
        total_ -= word.count;
      }
      word.units.resize(kept);
      count_pairs(w, 1);
    }
    check(pairs_[best].count == 0, "a merged pair is left");
    // The counts of these three units are part of the gain of all their pairs.
    for (const int32_t u : {left, right, made}) {
      auto& own = pairs_of_[u];
      std::erase_if(own, [&](int32_t pair) { return pairs_[pair].count <= 0 && forget(pair); });
      touched_.insert(touched_.end(), own.begin(), own.end());
    }
    std::ranges::sort(touched_);
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    refresh(touched_);
  }

  // A pair without occurrences leaves the heap; should it ever occur again, it is a new one.
  bool forget(int32_t pair) {
    auto& p = pairs_[pair];
    pairs_.update(pair);
    const auto it = index_.find(key_of(p.left, p.right));
    if (it != index_.end() && it->second == pair) index_.erase(it);
    std::vector<int32_t>().swap(p.words);
    return true;
  }

  static bool contains(const std::vector<int32_t>& units, int32_t left, int32_t right) {
    for (size_t i = 1; i < units.size(); ++i)
      if (units[i - 1] == left && units[i] == right) return true;
    return false;
  }

  std::vector<std::string> units_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<int64_t> counts_;                 // of the units
  std::vector<std::vector<int32_t>> pairs_of_;  // pairs that a unit is part of
  int64_t total_ = 0;                           // N
  std::vector<Word> words_;
  PairHeap pairs_;
  std::unordered_map<uint64_t, int32_t> index_;  // (left, right) to pair
  std::vector<int32_t> touched_;
  int alphabet_size_ = 0;
  int32_t stamp_ = -1;
};

}  // namespace

std::string train_wordpiece(const WordCounts& words, int size, double coverage) {
  PieceTrainer trainer(words, coverage);
  const auto pieces = [&] { return static_cast<int>(std::size(kSpecial) + trainer.units().size()); };
  require(size >= pieces(),
          "--size {} is too small: the text has {} single-character pieces, so at least {} are needed", size,
          trainer.alphabet_size(), pieces());
  while (pieces() < size && trainer.step()) {
  }
  require(pieces() == size, "--size {} is too large for this text: at most {} pieces can be made", size, pieces());
  return fmt::format("{}\n{}\n", fmt::join(kSpecial, "\n"), fmt::join(trainer.units(), "\n"));
}

}  // namespace nmt
