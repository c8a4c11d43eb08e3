#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nmt {

// The bytes of a whole regular file. Throws UserError, naming it, where it cannot be read or is larger than max_bytes.
std::string read_file(const std::string& path, int64_t max_bytes = std::numeric_limits<int64_t>::max());

// A file that a reader sees as it was or whole, never a part of. Bytes go to PATH.tmp.PID beside it, which commit()
// fsyncs and renames; without commit the destructor removes it. One whose unfinished file is kept writes to
// PATH.part.PID, where what was sent before an error or a signal stays, and is named. No file that is there is
// replaced: then a number follows, .tmp.PID.N. A link stays: the file that it leads to is replaced. Path "-" is stdout,
// as is /dev/stdout; what the shell redirected (/dev/stderr, /dev/fd/N), a device or a pipe is written to as it is.
// Throws UserError where the file cannot be created, Error where writing fails (disk full).
class AtomicFile {
 public:
  enum class Unfinished { kRemoved, kKept };
  explicit AtomicFile(std::string path, Unfinished unfinished = Unfinished::kRemoved);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends, in memory until a megabyte is there.
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write(const void* data, size_t bytes);
  bool is_terminal() const;
  void send();    // what was written so far, to who sees it before commit(): of stdout, a device, a pipe, or a part
  void commit();  // once, after the last write

 private:
  void flush();
  void list(bool there);  // for leave_no_temporaries()

  std::string path_, target_, temporary_, buffer_;
  Unfinished unfinished_;
  int descriptor_ = -1;
  int64_t written_ = 0;  // bytes, whole
};

// Removes what AtomicFiles have not committed, which a program that a signal ends would leave behind, or names the
// parts that they keep. For handlers.
void leave_no_temporaries() noexcept;

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

// What messages call a path that is read, or written.
std::string input_name(const std::string& path);
std::string output_name(const std::string& path);

// Whether both paths lead to one file.
bool same_file(const std::string& a, const std::string& b);

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
