#include "text/training_lines.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/philox.h"

namespace nmt {

TrainingLines::TrainingLines(std::vector<std::string> paths, int64_t max_lines, uint64_t seed)
    : paths_(std::move(paths)) {
  // A missing file is known before work begins. A pipe is opened when it is its turn: who writes to several may do so
  // one after the other.
  std::error_code failed;
  for (const auto& path : paths_)
    if (path != "-" && !std::filesystem::is_fifo(path, failed)) TextReader reader(path, OnNul::kReplace);
  if (max_lines > 0) sample(max_lines, seed);
}

bool TrainingLines::next(std::string& line) {
  if (!sampled_) return read(line);
  if (given_ == sample_.size()) return false;
  line = std::move(sample_[given_++]);
  return true;
}

bool TrainingLines::read(std::string& line) {
  while (!reader_ || !reader_->next(line)) {
    if (file_ == paths_.size()) return false;
    reader_.emplace(paths_[file_++], OnNul::kReplace);
  }
  return true;
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
