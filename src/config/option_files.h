#pragma once

#include <string>
#include <vector>

namespace nmt {

// The files that a program's options name; empty paths are none. UserError, from reads(), where standard input is named
// twice, from opens() where it is named at all, from writes() for a name of a compressed file, and for a file that is
// named before (the files need not be there), but for devices and pipes: what is written needs a file of its own.
class OptionFiles {
 public:
  OptionFiles& reads(const std::string& option, const std::string& path);  // "-" is standard input
  OptionFiles& reads(const std::string& option, const std::vector<std::string>& paths);
  OptionFiles& opens(const std::string& option, const std::string& path);  // what is no stream of text: a model, say
  OptionFiles& opens(const std::string& option, const std::vector<std::string>& paths);
  OptionFiles& writes(const std::string& option, const std::string& path);

 private:
  struct Named {
    std::string option, path;
    bool written;
  };
  std::vector<Named> all_;
  std::string standard_input_;  // the option that reads it
};

}  // namespace nmt
