#include "text/vocab_lines.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/utf8.h"

namespace nmt {
namespace {

constexpr int64_t kWarnings = 3;  // lines of one file that are named
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

TrainingLines::TrainingLines(std::vector<std::string> paths, int64_t max_lines, uint64_t seed)
    : paths_(std::move(paths)) {
  require(std::ranges::count(paths_, "-") <= 1, "standard input (-) can be read only once");
  if (max_lines > 0) sample(max_lines, seed);
}

bool TrainingLines::next(std::string& line) {
  if (!sampled_) return read(line);
  if (given_ == sample_.size()) return false;
  line = std::move(sample_[given_++]);
  return true;
}

bool TrainingLines::read(std::string& line) {
  for (;;) {
    if (reader_ && reader_->next(line)) {
      repair(line);
      return true;
    }
    if (repaired_ > kWarnings) log::warn("{}: {} malformed lines in all", reader_->name(), repaired_);
    repaired_ = 0;
    reader_.reset();
    if (file_ == paths_.size()) return false;
    reader_ = std::make_unique<LineReader>(paths_[file_++]);
  }
}

void TrainingLines::repair(std::string& line) {
  const bool valid = is_valid_utf8(line), nul = line.find('\0') != line.npos;
  if (valid && !nul) return;
  if (++repaired_ <= kWarnings)
    log::warn("{}:{}: {}; replaced by U+FFFD", reader_->name(), reader_->line_number(),
              valid ? "NUL bytes" : "not valid UTF-8");
  std::string repaired;
  for (const char c : repair_utf8(line)) {
    if (c == '\0')
      repaired += kReplacement;
    else
      repaired += c;
  }
  line = std::move(repaired);
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
