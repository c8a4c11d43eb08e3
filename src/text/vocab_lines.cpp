#include "text/vocab_lines.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"

namespace nmt {

TrainingLines::TrainingLines(const std::vector<std::string>& paths, int64_t max_lines, uint64_t seed) {
  require(std::ranges::count(paths, "-") <= 1, "standard input (-) can be read only once");
  for (const auto& path : paths) files_.emplace_back(path, OnNul::kReplace);
  if (max_lines > 0) sample(max_lines, seed);
}

bool TrainingLines::next(std::string& line) {
  if (!sampled_) return read(line);
  if (given_ == sample_.size()) return false;
  line = std::move(sample_[given_++]);
  return true;
}

bool TrainingLines::read(std::string& line) {
  for (; current_ < files_.size(); ++current_)
    if (files_[current_].next(line)) return true;
  return false;
}

// Algorithm R (Vitter 1985), then back into the order of the text.
void TrainingLines::sample(int64_t max_lines, uint64_t seed) {
  sampled_ = true;
  Random random(seed);
  std::vector<std::pair<int64_t, std::string>> kept;
  std::string line;
  for (int64_t i = 0; read(line); ++i) {
    if (i < max_lines) {
      kept.emplace_back(i, std::move(line));
    } else if (const auto place = random.below(static_cast<uint64_t>(i) + 1);
               place < static_cast<uint64_t>(max_lines)) {
      kept[place] = {i, std::move(line)};
    }
  }
  std::ranges::sort(kept);
  for (auto& [number, text] : kept) sample_.push_back(std::move(text));
}

}  // namespace nmt
