#include "config/option_files.h"

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_number.h"

namespace nmt {
namespace {

constexpr std::string_view kNumber = "{U}";

void require_apart(bool apart, const std::string& other, const std::string& option, const std::string& file) {
  require(apart, "--{} and --{} are one file, {}: what is written needs a file of its own", other, option, file);
}

}  // namespace

std::string with_number(std::string name, int64_t number) {
  for (size_t at; (at = name.find(kNumber)) != std::string::npos;)
    name.replace(at, kNumber.size(), std::to_string(number));
  return name;
}

OptionFiles::OptionFiles(const Options& options) { reads("config", options.configurations()); }

OptionFiles& OptionFiles::reads(const std::string& option, const std::string& path) {
  if (is_standard_input(path)) {
    require(standard_input_.empty(), "standard input is asked for twice: --{}{}{}", standard_input_,
            standard_input_ == option ? "" : " and --", standard_input_ == option ? "" : option);
    standard_input_ = option;
  }
  if (path != "-" && !path.empty()) all_.push_back({option, path, false});
  return *this;
}

OptionFiles& OptionFiles::reads(const std::string& option, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) reads(option, path);
  return *this;
}

OptionFiles& OptionFiles::opens(const std::string& option, const std::string& path) {
  require(path != "-", "--{} names a file, and is not read from standard input", option);
  return reads(option, path);
}

OptionFiles& OptionFiles::opens(const std::string& option, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) opens(option, path);
  return *this;
}

OptionFiles& OptionFiles::writes(const std::string& option, const std::string& path) {
  if (path.empty()) return *this;
  require(!path.ends_with(".gz") && !path.ends_with(".zst"),
          "--{} {}: what is written is not compressed: give a name without that ending", option, path);
  const bool to_output = is_standard_output(path);
  for (const Named& other : all_)
    require_apart((!other.written && to_output && is_standard_output(other.path)) || !same_file(path, other.path),
                  other.option, option, output_name(path));
  if (to_output && !standard_input_.empty())
    require_apart(!same_file(path, "/dev/stdin"), standard_input_, option, output_name(path));
  all_.push_back({option, path, true});
  return *this;
}

OptionFiles& OptionFiles::writes_numbered(const std::string& option, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  const size_t at = name.find(kNumber);
  if (at == name.npos) return writes(option, path);
  for (const Named& other : all_) {
    const std::string file = std::filesystem::path(other.path).filename();
    if (!file.starts_with(name.substr(0, at))) continue;
    for (size_t end = at + 1; end <= file.size(); ++end)  // each number that may stand there
      if (const auto number = parse_number<int64_t>(std::string_view(file).substr(at, end - at)))
        require_apart(!same_file(with_number(path, *number), other.path), other.option, option, other.path);
  }
  return writes(option, path);
}

}  // namespace nmt
