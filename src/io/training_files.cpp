#include "io/training_files.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <optional>
#include <tuple>

#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_number.h"
#include "io/safetensors.h"

namespace nmt {
namespace {

namespace fs = std::filesystem;

const std::string kSuffix = ".safetensors";

bool is_whole(const std::string& path) {
  try {
    SafetensorsFile::open(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What stands between PREFIX. and .safetensors, of what a name has after PREFIX; empty where these are not there.
std::string_view middle_of(std::string_view rest) {
  if (rest.size() <= 1 + kSuffix.size() || !rest.starts_with('.') || !rest.ends_with(kSuffix)) return {};
  return rest.substr(1, rest.size() - 1 - kSuffix.size());
}

// The number of a model of this kind; none for another one.
std::optional<int64_t> number_of(const std::string& kind, std::string_view middle) {
  if (!middle.starts_with(kind) || middle.substr(kind.size()).starts_with('-')) return std::nullopt;
  return parse_number<int64_t>(middle.substr(kind.size()));
}

// The metric that a model is best by; empty for another one.
std::string_view metric_of(std::string_view middle) {
  constexpr std::string_view kBest = "best-", kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";  // as metrics have
  return middle.starts_with(kBest) && middle.find_first_not_of(kLetters) == middle.npos ? middle.substr(kBest.size())
                                                                                        : "";
}

bool is_numbered(std::string_view middle) {
  return number_of(TrainingFiles::kUpdate, middle) || number_of(TrainingFiles::kEpoch, middle);
}

// Whether PREFIX and this name a file of the training.
bool is_own(std::string_view rest) {
  const std::string_view middle = middle_of(rest);
  return rest == ".state" || rest == ".lock" || rest == kSuffix || is_numbered(middle) || !metric_of(middle).empty();
}

void remove(const std::string& path) {
  std::error_code failed;
  fs::remove(path, failed);
  if (failed) fail("cannot remove {}: {}", path, failed.message());
}

}  // namespace

TrainingFiles::TrainingFiles(const std::string& model) {
  require(model.ends_with(kSuffix), "--model: '{}' must end with {}", model, kSuffix);
  require(fs::path(model).filename() != kSuffix, "--model: '{}' has no name before {}", model, kSuffix);
  prefix_ = model.substr(0, model.size() - kSuffix.size());
}

std::string TrainingFiles::best(const std::string& metric) const {
  return fmt::format("{}.best-{}{}", prefix_, metric, kSuffix);
}

void TrainingFiles::refuse_numbered(const std::vector<std::string>& metrics) const {
  const size_t dot = prefix_.rfind('.');
  if (dot == std::string::npos || dot == 0) return;
  const std::string_view middle = std::string_view(prefix_).substr(dot + 1);
  require(!is_numbered(middle) && std::ranges::find(metrics, metric_of(middle)) == metrics.end(),
          "{0}{1} is named as a model of the training {2}{1}, which may remove it: give it another name", prefix_,
          kSuffix, prefix_.substr(0, dot));
}

void TrainingFiles::refuse_own(const std::string& option, const std::string& path) const {
  const auto whole = [](const std::string& file) {
    std::error_code failed;
    const fs::path absolute = fs::absolute(file, failed), found = fs::weakly_canonical(absolute, failed);
    return failed ? absolute : found;  // what cannot be written is said elsewhere
  };
  const fs::path file = whole(path), prefix = whole(prefix_);
  const std::string name = file.filename().string(), begin = prefix.filename().string();
  require(file.parent_path() != prefix.parent_path() || !name.starts_with(begin) || !is_own(name.substr(begin.size())),
          "--{} {} is named as a file of the training {}{}: give another name", option, path, prefix_, kSuffix);
}

std::string TrainingFiles::numbered(const std::string& kind, int64_t number) const {
  return fmt::format("{}.{}{}{}", prefix_, kind, number, kSuffix);
}

// visit(path, rest) for all in the prefix's folder whose names begin with the prefix's: what follows. Returns what the
// folder could not be read for.
template <class Visit>
std::error_code TrainingFiles::for_each_file(Visit visit) const {
  const fs::path folder = fs::path(prefix_).parent_path();
  const std::string begin = fs::path(prefix_).filename().string();
  std::error_code failed;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const fs::path file = entry->path().filename();
    const std::string name = file.string();
    if (name.starts_with(begin)) visit(folder / file, std::string_view(name).substr(begin.size()));
  }
  return failed;
}

std::vector<TrainingFiles::Numbered> TrainingFiles::find(const std::string& kind) const {
  std::vector<Numbered> found;
  const std::error_code failed = for_each_file([&](const fs::path& path, std::string_view rest) {
    const auto number = number_of(kind, middle_of(rest));
    if (number) found.push_back({*number, path.string()});
  });
  const std::string folder = fs::path(prefix_).parent_path().string();
  require(!failed, "cannot read the folder {}: {}", folder.empty() ? "." : folder, failed.message());
  std::ranges::sort(found, {}, [](const Numbered& f) { return std::tie(f.number, f.path); });
  return found;
}

std::vector<TrainingFiles::Numbered> TrainingFiles::find_all() const {
  auto models = find(kUpdate);
  std::ranges::move(find(kEpoch), std::back_inserter(models));
  return models;
}

std::vector<std::string> TrainingFiles::find_best(const std::vector<std::string>& metrics) const {
  std::vector<std::string> found;
  std::error_code failed;
  for (const std::string& metric : metrics)
    if (fs::exists(best(metric), failed)) found.push_back(best(metric));
  return found;
}

std::vector<std::string> TrainingFiles::last(const std::string& kind, int count) const {
  const auto of_kind = [&](const std::string& k) {
    return kind.empty() || kind == k ? find(k) : std::vector<Numbered>();
  };
  const auto iterations = of_kind(kUpdate), epochs = of_kind(kEpoch);
  require(iterations.empty() || epochs.empty(),
          "beside {}{} lie checkpoints by update and by epoch: choose with --kind iter or --kind epoch", prefix_,
          kSuffix);
  const auto& files = epochs.empty() ? iterations : epochs;
  const auto wanted = static_cast<size_t>(count);
  require(files.size() >= wanted, "beside {}{} lie {} checkpoints {}.{}N{}, --last asks for {}", prefix_, kSuffix,
          files.size(), prefix_, kind.empty() ? (epochs.empty() ? kUpdate : kEpoch) : kind, kSuffix, count);
  std::vector<std::string> paths;
  for (size_t i = files.size() - wanted; i < files.size(); ++i) paths.push_back(files[i].path);
  return paths;
}

void TrainingFiles::remove_old(const std::string& kind, int keep) const {
  check(keep >= 1, "at least one checkpoint must stay");
  auto files = find(kind);
  std::ranges::reverse(files);
  const auto kept = static_cast<size_t>(keep);
  if (files.size() <= kept) return;
  bool safe = std::any_of(files.begin(), files.begin() + keep, [](const auto& f) { return is_whole(f.path); });
  std::vector<std::string> removed;
  for (size_t i = kept; i < files.size(); ++i) {
    if (!safe && is_whole(files[i].path)) {
      safe = true;
      continue;
    }
    removed.push_back(files[i].path);
  }
  // Without a whole file there is nothing better than what is there.
  if (!safe) return;
  for (const auto& path : removed) remove(path);
}

std::vector<std::string> TrainingFiles::remove_later(int64_t updates, int64_t epochs,
                                                     const std::vector<std::string>& metrics) const {
  std::vector<std::string> removed;
  for (const auto& [kind, last] : {std::pair(kUpdate, updates), std::pair(kEpoch, epochs)})
    for (const auto& file : find(kind)) {
      if (file.number <= last) continue;
      remove(file.path);
      removed.push_back(file.path);
    }
  if (updates > 0) return removed;
  for (const std::string& path : find_best(metrics)) {
    remove(path);
    removed.push_back(path);
  }
  return removed;
}

void TrainingFiles::remove_leftovers() const {
  for_each_file([&](const fs::path& path, std::string_view rest) {
    const auto left = temporary(rest);
    if (!left || !is_own(left->file)) return;
    std::error_code ignored;
    if (left->owner == ::getpid() || (::kill(left->owner, 0) != 0 && errno == ESRCH)) fs::remove(path, ignored);
  });
}

}  // namespace nmt
