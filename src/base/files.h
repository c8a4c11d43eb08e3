#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace nmt {

// The bytes of a whole regular file. Throws UserError, naming it, where it cannot be read or is larger than max_bytes.
std::string read_file(const std::string& path, int64_t max_bytes = std::numeric_limits<int64_t>::max());

// After a read or write of the descriptor that failed: whether it is to be made again, as a signal interrupted it or
// there was nothing to read, or no room, in a descriptor that does not wait. Waits for these poll() events then.
bool can_go_on(int descriptor, short events);

// A file that a reader sees as it was or whole, never a part of. Bytes go to PATH.tmp.PID beside it, which commit()
// fsyncs and renames; without commit the destructor removes it. One whose unfinished file is kept writes to
// PATH.part.PID, where what was sent before an error or a signal stays, and is named. No file that is there is
// replaced: then a number follows, .tmp.PID.N. A link stays: the file that it leads to is replaced. Path "-" is stdout,
// as is /dev/stdout; what the shell redirected (/dev/stderr, /dev/fd/N), a device or a pipe is written to as it is.
// Throws UserError where the file cannot be created, or is write-protected, Error where writing fails (disk full).
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

// To standard output, at once; Error where that fails.
void write_output(std::string_view text);
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

// Removes what AtomicFiles have not committed, which a program that a signal ends would leave behind, or names the
// parts that they keep. For handlers.
void leave_no_temporaries() noexcept;

// Of an AtomicFile's name before it is committed: the file that it was to become, and the process. None of other names.
struct Temporary {
  std::string_view file;
  int owner;
};
std::optional<Temporary> temporary(std::string_view name);

// What messages call a path that is read, or written.
std::string input_name(const std::string& path);
std::string output_name(const std::string& path);

// Whether a path is that of a standard stream: "-", /dev/stdin, /proc/self/fd/1 ...
bool is_standard_input(const std::string& path);
bool is_standard_output(const std::string& path);

// Before lines are added to a file: ends its last one where that lacks its end, as where a disk was full, so that it
// takes no other with it. Devices and pipes have no last line; who adds lines is told that the file cannot be written.
void end_last_line(const std::string& path);

// Whether both paths lead to one file.
bool same_file(const std::string& a, const std::string& b);

}  // namespace nmt
