#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/text_reader.h"

namespace nmt {

// The cleaned lines of several text files, one after the other; NUL bytes become U+FFFD. With max_lines > 0 only a
// uniform sample of so many lines is given, in their order, which depends on the seed and the number of lines alone.
class TrainingLines {
 public:
  // Opens all files, so that a missing one is known before work begins; for a sample reads them, too. Throws UserError
  // where a file cannot be read and where standard input is named twice.
  TrainingLines(const std::vector<std::string>& paths, int64_t max_lines, uint64_t seed);

  // The next line; false at the end. Throws UserError where a file is damaged.
  bool next(std::string& line);

 private:
  bool read(std::string& line);
  void sample(int64_t max_lines, uint64_t seed);

  std::vector<TextReader> files_;
  size_t current_ = 0;
  bool sampled_ = false;
  std::vector<std::string> sample_;
  size_t given_ = 0;
};

}  // namespace nmt
