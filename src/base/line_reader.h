#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nmt {

// Lines of a text file, device or pipe; splits at '\n' only and keeps '\r'. Plain, gzip or zstd, told by its first
// bytes once a line is asked for; "-" is stdin. A last line without '\n' counts.
class LineReader {
 public:
  explicit LineReader(std::string path);  // opens it; throws UserError, naming it, where that fails
  ~LineReader();
  LineReader(LineReader&&) noexcept;

  // The next line, without its '\n'; false at the end. Throws UserError, with the file and how many lines are whole,
  // where the file is damaged, cut off, in UTF-16 or packed otherwise, or cannot be read, or a line has more than 64
  // MiB.
  bool next(std::string& line);
  int64_t line_number() const { return line_number_; }  // of the line read last, from 1
  const std::string& name() const { return name_; }     // the path or "standard input"

 private:
  struct Source;
  std::string name_;
  std::unique_ptr<Source> source_;
  int64_t line_number_ = 0;
};

// All lines of a file, as LineReader gives them; throws what it throws.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace nmt
