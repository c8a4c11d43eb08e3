#include "io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "io/safetensors.h"

namespace nmt {
namespace {

namespace fs = std::filesystem;

bool is_whole(const std::string& path) {
  try {
    SafetensorsFile::open(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<NumberedFile> find_numbered(const std::string& prefix, const std::string& suffix) {
  const fs::path folder = fs::path(prefix).parent_path();
  const std::string before = fs::path(prefix).filename().string();
  std::vector<NumberedFile> found;
  std::error_code failed;
  fs::directory_iterator entries(folder.empty() ? "." : folder, failed);
  require(!failed, "cannot read the folder {}: {}", folder.empty() ? "." : folder.string(), failed.message());
  for (; entries != fs::directory_iterator(); entries.increment(failed)) {
    const std::string file = entries->path().filename().string();
    if (file.size() <= before.size() + suffix.size() || !file.starts_with(before) || !file.ends_with(suffix)) continue;
    const char* begin = file.data() + before.size();
    const char* end = file.data() + file.size() - suffix.size();
    int64_t number = 0;
    const auto parsed = std::from_chars(begin, end, number);
    if (*begin != '-' && parsed.ec == std::errc() && parsed.ptr == end)
      found.push_back({number, (folder / file).string()});
  }
  require(!failed, "cannot read the folder {}: {}", folder.string(), failed.message());
  std::ranges::sort(found, {}, [](const NumberedFile& f) { return std::tie(f.number, f.path); });
  return found;
}

std::vector<std::string> remove_old_checkpoints(const std::string& prefix, const std::string& suffix, int keep) {
  check(keep >= 1, "at least one checkpoint must stay");
  auto files = find_numbered(prefix, suffix);
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
  for (const auto& path : removed) {
    std::error_code failed;
    fs::remove(path, failed);
    if (failed) fail("cannot remove {}: {}", path, failed.message());
  }
  return removed;
}

std::vector<std::string> last_checkpoints(const std::string& model, const std::string& kind, int count) {
  const std::string kSuffix = ".safetensors";
  require(model.size() > kSuffix.size() && model.ends_with(kSuffix),
          "the model {} does not end in {}: its checkpoints cannot be found", model, kSuffix);
  const std::string prefix = model.substr(0, model.size() - kSuffix.size());
  const auto find = [&](const std::string& k) {
    return kind.empty() || kind == k ? find_numbered(fmt::format("{}.{}", prefix, k), kSuffix)
                                     : std::vector<NumberedFile>();
  };
  const auto iterations = find("iter"), epochs = find("epoch");
  require(iterations.empty() || epochs.empty(),
          "beside {} lie checkpoints by update and by epoch: choose with --kind iter or --kind epoch", model);
  const auto& files = epochs.empty() ? iterations : epochs;
  const auto wanted = static_cast<size_t>(count);
  require(files.size() >= wanted, "beside {} lie {} checkpoints {}.{}N{}, --last asks for {}", model, files.size(),
          prefix, kind.empty() ? (epochs.empty() ? "iter" : "epoch") : kind, kSuffix, count);
  std::vector<std::string> paths;
  for (size_t i = files.size() - wanted; i < files.size(); ++i) paths.push_back(files[i].path);
  return paths;
}

}  // namespace nmt
