#include "metrics/shifts.h"

#include <cmath>
#include <optional>

namespace nmt::metrics {
namespace {

constexpr int kMaxShiftSize = 10, kMaxShiftDistance = 50, kBeam = 25, kMaxCandidates = 1000;
constexpr int kInfinity = 1 << 29;

int size_of(const Symbols& symbols) { return static_cast<int>(symbols.size()); }

// Edit distances to one reference of hypotheses of one length, in a band around the diagonal. Row i of the matrix
// belongs to the first i hypothesis words, column j to the first j reference words.
class BandedDistance {
 public:
  BandedDistance(const Symbols& reference, int rows) : reference_(reference), rows_(rows), bands_(rows + 2) {
    const int columns = size_of(reference);
    const double ratio = static_cast<double>(columns) / rows;
    const int beam = kBeam < ratio / 2 ? static_cast<int>(std::ceil(ratio / 2 + kBeam)) : kBeam;
    bands_[0] = {0, columns + 1, 0};
    for (int i = 1; i <= rows; ++i) {
      const int diagonal = static_cast<int>(std::floor(i * ratio));
      bands_[i].low = std::max(0, diagonal - beam);
      bands_[i].high = i == rows ? columns + 1 : std::min(columns + 1, diagonal + beam);
    }
    bands_[rows + 1] = {0, 0, 0};
    size_t cells = 0;
    for (int i = 0; i <= rows; ++i) {  // one cell before the band and as many after it as the next row looks at
      bands_[i].offset = static_cast<std::ptrdiff_t>(cells) + 1 - bands_[i].low;
      cells += static_cast<size_t>(std::max(bands_[i].high, bands_[i + 1].high) - bands_[i].low + 1);
    }
    matrix_.assign(cells, kInfinity);
    for (int j = 0; j <= columns; ++j) matrix_[at(0, j)] = j;
    trial_ = matrix_;
  }

  // Fills the matrix for this hypothesis and returns its distance.
  int set(const Symbols& hypothesis) { return fill(hypothesis, 0, matrix_, matrix_); }

  // The distance of a hypothesis that shares the first `same` words with the one that was set.
  int distance(const Symbols& hypothesis, int same) { return fill(hypothesis, same, matrix_, trial_); }

  // How the hypothesis that was set aligns with the reference.
  struct Alignment {
    std::vector<int> position;  // of the hypothesis word beside each reference word; -1 before the first
    std::vector<int> hypothesis_errors, reference_errors;  // sums over the words before each position
  };

  Alignment align(const Symbols& hypothesis) const {
    const int columns = size_of(reference_);
    std::vector<char> hypothesis_wrong(rows_, 1), reference_wrong(columns, 1);
    Alignment result{std::vector<int>(columns), {0}, {0}};
    for (int i = rows_, j = columns; i > 0 || j > 0;) {
      // Ties: no edit or substitution, then a word too many, then a word that is missing.
      const int here = i > 0 ? matrix_[at(i, j)] : 0;
      if (i > 0 && j > 0 && matrix_[at(i - 1, j - 1)] + (hypothesis[i - 1] != reference_[j - 1]) == here) {
        --i, --j;
        result.position[j] = i;
        hypothesis_wrong[i] = reference_wrong[j] = hypothesis[i] != reference_[j];
      } else if (i > 0 && matrix_[at(i - 1, j)] + 1 == here) {
        --i;
      } else {
        --j;
        result.position[j] = i - 1;
      }
    }
    for (const char wrong : hypothesis_wrong)
      result.hypothesis_errors.push_back(result.hypothesis_errors.back() + wrong);
    for (const char wrong : reference_wrong) result.reference_errors.push_back(result.reference_errors.back() + wrong);
    return result;
  }

 private:
  struct Band {
    int low = 0, high = 0;  // columns [low, high) are computed; what lies outside is infinite
    std::ptrdiff_t offset = 0;
  };

  size_t at(int i, int j) const { return static_cast<size_t>(bands_[i].offset + j); }

  // Computes the rows after `same` into `to`; row `same` itself is read from `from`.
  int fill(const Symbols& hypothesis, int same, const std::vector<int>& from, std::vector<int>& to) {
    const std::vector<int>* above_in = &from;
    for (int i = same + 1; i <= rows_; ++i, above_in = &to) {
      const auto [low, high, offset] = bands_[i];
      const int* above = above_in->data() + at(i - 1, low);
      int* row = to.data() + offset + low;
      const uint32_t* words = reference_.data() + low;
      const uint32_t word = hypothesis[i - 1];
      int left = kInfinity;
      for (int k = 0; k < high - low; ++k) {
        const int substituted = low + k == 0 ? kInfinity : above[k - 1] + (word != words[k - 1]);
        left = row[k] = std::min({substituted, above[k] + 1, left + 1, kInfinity});
      }
    }
    return (*above_in)[at(rows_, size_of(reference_))];
  }

  const Symbols& reference_;
  int rows_;
  std::vector<Band> bands_;
  std::vector<int> matrix_, trial_;
};

// Takes `length` words from `start` and puts them before position `target` of the whole; a target inside or right
// behind the block counts among the words that are left.
void shift(const Symbols& words, int start, int length, int target, Symbols& result) {
  result = words;
  const auto at = [&](int i) { return result.begin() + i; };
  if (target < start)
    std::rotate(at(target), at(start), at(start + length));
  else
    std::rotate(at(start), at(start + length),
                at(target > start + length ? target : std::min(length + target, size_of(words))));
}

struct Shift {
  int gain, length, start, target;
  bool better_than(const Shift& other) const {
    if (gain != other.gain) return gain > other.gain;
    if (length != other.length) return length > other.length;
    if (start != other.start) return start < other.start;
    return target < other.target;
  }
};

// The shift that lowers the distance most. Counts what it tries in `tried`.
std::optional<Shift> best_shift(const Symbols& words, const Symbols& reference, BandedDistance& distances, int& tried) {
  const int before = distances.set(words);
  const auto alignment = distances.align(words);
  const int columns = size_of(reference), rows = size_of(words);
  std::optional<Shift> best;
  Symbols shifted;
  for (int start = 0; start < rows; ++start) {
    const int last = std::min(columns - 1, start + kMaxShiftDistance);
    for (int column = std::max(0, start - kMaxShiftDistance); column <= last; ++column) {
      for (int length = 1; length <= kMaxShiftSize && start + length <= rows && column + length <= columns; ++length) {
        if (words[start + length - 1] != reference[column + length - 1]) break;
        const auto right = [&](const std::vector<int>& errors, int at) { return errors[at + length] == errors[at]; };
        if (right(alignment.hypothesis_errors, start) || right(alignment.reference_errors, column)) continue;
        const int beside = alignment.position[column];
        if (start <= beside && beside < start + length) continue;  // the words would move within themselves

        int previous = -1;
        for (int offset = -1; offset < length; ++offset) {
          const int target = column + offset < 0 ? 0 : alignment.position[column + offset] + 1;
          if (target == previous) continue;
          previous = target;
          shift(words, start, length, target, shifted);
          const Shift candidate{before - distances.distance(shifted, std::min(start, target)), length, start, target};
          ++tried;
          if (!best || candidate.better_than(*best)) best = candidate;
        }
        if (tried >= kMaxCandidates) return best;
      }
    }
  }
  return best;
}

}  // namespace

size_t edits_with_shifts(const Symbols& hypothesis, const Symbols& reference) {
  if (hypothesis.empty() || reference.empty()) return hypothesis.size() + reference.size();
  BandedDistance distances(reference, size_of(hypothesis));
  Symbols words = hypothesis, shifted;
  size_t shifts = 0;
  for (int tried = 0;; ++shifts) {
    const auto best = best_shift(words, reference, distances, tried);
    if (tried >= kMaxCandidates || !best || best->gain <= 0) break;
    shift(words, best->start, best->length, best->target, shifted);
    words.swap(shifted);
  }
  return shifts + static_cast<size_t>(distances.set(words));
}

}  // namespace nmt::metrics
