#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/text_reader.h"

namespace nmt {

// The cleaned lines of several text files, one after the other; NUL bytes become U+FFFD. With max_lines > 0 only a
// uniform sample of so many lines is given, in their order, which depends on the seed and the number of lines alone.
class TrainingLines {
 public:
  // Throws UserError where a file, unless it is a pipe, cannot be opened. A sample is drawn at once, so all files are
  // read.
  TrainingLines(std::vector<std::string> paths, int64_t max_lines, uint64_t seed);

  // The next line; false at the end. Throws UserError where a file cannot be read.
  bool next(std::string& line);

 private:
  bool read(std::string& line);
  void sample(int64_t max_lines, uint64_t seed);

  std::vector<std::string> paths_;
  size_t file_ = 0;  // the next one to open
  std::optional<TextReader> reader_;
  bool sampled_ = false;
  std::vector<std::string> sample_;
  size_t given_ = 0;
};

}  // namespace nmt
