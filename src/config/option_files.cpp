#include "config/option_files.h"

#include "base/error.h"
#include "base/files.h"

namespace nmt {

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
    require((!other.written && is_standard_output(path)) || !same_file(path, other.path),
            "--{} and --{} are one file, {}: what is written needs a file of its own", other.option, option,
            output_name(path));
  all_.push_back({option, path, true});
  return *this;
}

}  // namespace nmt
