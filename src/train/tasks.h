#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nmt {

// Names of the recipes of --task, with what they set: option name and value.
struct Task {
  std::string name, help;
  std::vector<std::pair<std::string, std::string>> settings;
  double paper_hours = 0;  // that the paper says its training took on 8 P100 (section 5.2); 0: it does not say
};
const std::vector<Task>& tasks();

}  // namespace nmt
