#include "config/option_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_number.h"

namespace nmt {
namespace {

constexpr std::string_view kNumber = "{U}";

// `name` with the number that `other` has where {U} stands; itself where there is none.
std::string numbered_as(const std::string& name, const std::string& other) {
  const std::string pattern = std::filesystem::path(name).filename(), file = std::filesystem::path(other).filename();
  const size_t at = pattern.find(kNumber);
  if (at == pattern.npos || !file.starts_with(pattern.substr(0, at))) return name;
  const size_t end = std::min(file.find_first_not_of("0123456789", at), file.size());
  const auto number = parse_number<int64_t>(std::string_view(file).substr(at, end - at));
  return number ? with_number(name, *number) : name;
}

}  // namespace

std::string with_number(std::string name, int64_t number) {
  for (size_t at; (at = name.find(kNumber)) != std::string::npos;)
    name.replace(at, kNumber.size(), std::to_string(number));
  return name;
}

OptionFiles::OptionFiles(const Options& options) { opens("config", options.configurations()); }

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
  for (const Named& other : all_)
    require((!other.written && is_standard_output(path)) || !same_file(numbered_as(path, other.path), other.path),
            "--{} and --{} are one file, {}: what is written needs a file of its own", other.option, option,
            output_name(numbered_as(path, other.path)));
  all_.push_back({option, path, true});
  return *this;
}

}  // namespace nmt
