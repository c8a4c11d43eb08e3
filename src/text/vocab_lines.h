#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"

namespace nmt {

// The lines of several text files, one after the other. Malformed UTF-8 and NUL bytes become U+FFFD; the first such
// lines of a file are named in warnings, the others counted. With max_lines > 0 only a uniform sample of so many lines
// is given, in their order, which depends on the seed and the number of lines alone.
class TrainingLines {
 public:
  TrainingLines(std::vector<std::string> paths, int64_t max_lines, uint64_t seed);

  bool next(std::string& line);

 private:
  bool read(std::string& line);
  void repair(std::string& line);
  void sample(int64_t max_lines, uint64_t seed);

  std::vector<std::string> paths_;
  size_t file_ = 0;  // the next one to open
  std::unique_ptr<LineReader> reader_;
  int64_t repaired_ = 0;  // lines of this file
  bool sampled_ = false;
  std::vector<std::string> sample_;
  size_t given_ = 0;
};

}  // namespace nmt
