#include "io/training_files.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <regex>
#include <tuple>

#include <unistd.h>

#include "base/error.h"
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
  const std::regex numbered(fmt::format(R"((.+)\.((iter|epoch)\d+|best-({})))", fmt::join(metrics, "|")));
  std::smatch parts;
  if (std::regex_match(prefix_, parts, numbered))
    user_error("{0}{1} is named as a model of the training {2}{1}, which may remove it: give it another name", prefix_,
               kSuffix, parts[1].str());
}

void TrainingFiles::refuse_own(const std::string& option, const std::string& path) const {
  static const std::regex own(R"(\.state|\.lock|(\.(iter|epoch)\d+|\.best-[a-z0-9-]+)?\.safetensors)");
  const auto whole = [](const std::string& file) {
    std::error_code failed;
    const fs::path absolute = fs::absolute(file, failed), found = fs::weakly_canonical(absolute, failed);
    return failed ? absolute : found;  // what cannot be written is said elsewhere
  };
  const fs::path file = whole(path), prefix = whole(prefix_);
  const std::string name = file.filename().string(), begin = prefix.filename().string();
  require(file.parent_path() != prefix.parent_path() || !name.starts_with(begin) ||
              !std::regex_match(name.substr(begin.size()), own),
          "--{} {} is named as a file of the training {}{}: give another name", option, path, prefix_, kSuffix);
}

std::string TrainingFiles::numbered(const std::string& kind, int64_t number) const {
  return fmt::format("{}.{}{}{}", prefix_, kind, number, kSuffix);
}

// visit(path, name) for all in the prefix's folder; what the folder could not be read for.
template <class Visit>
std::error_code TrainingFiles::for_each_file(Visit visit) const {
  const fs::path folder = fs::path(prefix_).parent_path();
  std::error_code failed;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const fs::path file = entry->path().filename();
    visit(folder / file, file.string());
  }
  return failed;
}

std::vector<TrainingFiles::Numbered> TrainingFiles::find(const std::string& kind) const {
  const std::string before = fmt::format("{}.{}", fs::path(prefix_).filename().string(), kind);
  std::vector<Numbered> found;
  const std::error_code failed = for_each_file([&](const fs::path& path, const std::string& file) {
    if (file.size() <= before.size() + kSuffix.size() || !file.starts_with(before) || !file.ends_with(kSuffix)) return;
    const auto number = parse_number<int64_t>(
        std::string_view(file).substr(before.size(), file.size() - before.size() - kSuffix.size()));
    if (number && *number >= 0) found.push_back({*number, path.string()});
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
  for (const std::string& metric : metrics)
    if (fs::exists(best(metric))) found.push_back(best(metric));
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

std::vector<std::string> TrainingFiles::remove_old(const std::string& kind, int keep) const {
  check(keep >= 1, "at least one checkpoint must stay");
  auto files = find(kind);
  std::ranges::reverse(files);
  const auto kept = static_cast<size_t>(keep);
  if (files.size() <= kept) return {};
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
  if (!safe) return {};
  for (const auto& path : removed) remove(path);
  return removed;
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
  static const std::regex written(R"(\.(state|((iter|epoch)\d+\.|best-[a-z0-9-]+\.)?safetensors)\.tmp\.(\d{1,9}))");
  const std::string name = fs::path(prefix_).filename().string();
  for_each_file([&](const fs::path& path, const std::string& file) {
    if (!file.starts_with(name)) return;
    const std::string rest = file.substr(name.size());
    std::smatch parts;
    if (!std::regex_match(rest, parts, written)) return;
    const pid_t pid = std::stoi(parts[4]);
    std::error_code ignored;
    if (pid > 0 && (pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH))) fs::remove(path, ignored);
  });
}

}  // namespace nmt
