#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/options.h"

namespace nmt {

// A file that is written for each of several numbers, which stand in the place of {U} in its name.
std::string with_number(std::string name, int64_t number);

// The files that a program's options name; empty paths are none. UserError, from reads(), where standard input is named
// twice, from opens() where it is named at all, from writes() for a name of a compressed file, and for a file that is
// named before (the files need not be there), but for devices and pipes: what is written needs a file of its own.
class OptionFiles {
 public:
  OptionFiles() = default;
  explicit OptionFiles(const Options& options);  // with the configurations that they were read from
  OptionFiles& reads(const std::string& option, const std::string& path);  // "-" is standard input
  OptionFiles& reads(const std::string& option, const std::vector<std::string>& paths);
  OptionFiles& opens(const std::string& option, const std::string& path);  // what is no stream of text: a model, say
  OptionFiles& opens(const std::string& option, const std::vector<std::string>& paths);
  OptionFiles& writes(const std::string& option, const std::string& path);
  // A file for each of several numbers, where its name has {U}: none of them is named before.
  OptionFiles& writes_numbered(const std::string& option, const std::string& path);

 private:
  struct Named {
    std::string option, path;
    bool written;
  };
  std::vector<Named> all_;
  std::string standard_input_;  // the option that reads it
};

}  // namespace nmt
