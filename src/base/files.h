#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nmt {

// The whole file. Throws UserError where it cannot be read or is larger than max_bytes.
std::string read_file(const std::string& path, int64_t max_bytes = std::numeric_limits<int64_t>::max());

// Writes PATH.tmp.PID beside the target; commit() fsyncs it and renames it to the target, so that a reader sees the old
// file or the new one, never a part. Without commit the destructor removes the temporary file. Path "-" is stdout; a
// device or pipe is written to as it is. Throws Error where a write fails (disk full), UserError where the file cannot
// be created.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view text) { write(text.data(), text.size()); }
  void write(const void* data, size_t bytes);
  void commit();

 private:
  void flush();

  std::string path_, temporary_, buffer_;
  int descriptor_ = -1;
};

// Lines of a text file; splits at '\n' only and keeps '\r'. Plain, gzip or zstd, told by content; "-" is stdin.
// A last line without '\n' counts. Throws UserError, naming the file, where it is missing or damaged.
class LineReader {
 public:
  explicit LineReader(std::string path);
  ~LineReader();
  LineReader(LineReader&&) noexcept;

  bool next(std::string& line);
  int64_t line_number() const { return line_number_; }  // of the line read last, from 1
  const std::string& name() const { return name_; }

 private:
  struct Source;
  std::string name_;
  std::unique_ptr<Source> source_;
  int64_t line_number_ = 0;
};

std::vector<std::string> read_lines(const std::string& path);

}  // namespace nmt
