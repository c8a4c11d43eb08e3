#include "base/files.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/parse_number.h"

namespace nmt {
namespace {

bool is_no_regular_file(const std::string& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

}  // namespace

std::string read_file(const std::string& path, int64_t max_bytes) {
  std::error_code failed;
  require(!std::filesystem::is_directory(path, failed), "cannot read {}: it is a folder", path);
  require(!is_no_regular_file(path), "cannot read {}: not a regular file", path);  // a pipe may never be open
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read {}: {}", path, std::strerror(errno));
  file.seekg(0, std::ios::end);
  const auto size = static_cast<int64_t>(file.tellg());
  require(size >= 0, "cannot read {}: not a regular file", path);
  require(size <= max_bytes, "{} is too large: {} bytes, at most {} are expected", path, size, max_bytes);
  std::string content(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(content.data(), size);
  require(file.gcount() == size, "cannot read {}: it ended after {} of {} bytes", path, file.gcount(), size);
  return content;
}

bool can_go_on(int descriptor, short events) {
  if (errno == EAGAIN) {
    pollfd file{descriptor, events, 0};
    ::poll(&file, 1, -1);
    return true;
  }
  return errno == EINTR;
}

namespace {

// Where a file is written to that `path` names: what links lead to, whether it is there or not.
std::string link_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  std::filesystem::path target = path;
  std::error_code failed;
  for (int links = 0; std::filesystem::is_symlink(target, failed); ++links) {
    const auto next = std::filesystem::read_symlink(target, failed);
    require(!failed && links < kMostLinks, "cannot write {}: its links lead nowhere", path);
    target = target.parent_path() / next;  // an absolute one stands alone
  }
  return target.string();
}

// Names of temporary files, and of parts; beyond so many at a time they are not listed.
using Names = std::array<std::atomic<const char*>, 16>;
Names temporaries, parts;
std::atomic<int> readers = 0;  // of those names
static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// The open file that a path names; -1: none. What it leads to belongs to whoever redirected it, and may hold more than
// this program writes.
int named_descriptor(const std::string& path) {
  if (path == "/dev/stdin") return STDIN_FILENO;
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
    if (path.starts_with(folder)) return parse_number<int>(path.substr(folder.size())).value_or(-1);
  return -1;
}

constexpr std::string_view kTemporary = ".tmp.", kUnfinished = ".part.";  // between a path and the process
constexpr std::string_view kPart = " has the lines that were written before";

bool is_empty(const char* path) noexcept {
  struct stat status;
  return ::stat(path, &status) != 0 || status.st_size == 0;
}

// To standard error, in a line of its own, if somebody reads that: for handlers.
void name_part(std::string_view file) noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  pollfd error{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&error, 1, 0) != 1) return;
  const std::string_view above = ::isatty(STDERR_FILENO) == 1 ? "\n" : "";  // of a progress bar
  for (const std::string_view said : {above, file, kPart, std::string_view("\n")})
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, said.data(), said.size());
}

}  // namespace

void leave_no_temporaries() noexcept {
  ++readers;
  for (const auto& name : temporaries)
    if (const char* file = name.load()) ::unlink(file);
  for (const auto& name : parts) {
    const char* file = name.load();
    if (file == nullptr) continue;
    if (is_empty(file))
      ::unlink(file);
    else
      name_part(file);
  }
  --readers;
}

void AtomicFile::list(bool there) {
  const char* const name = temporary_.c_str();
  for (auto& place : unfinished_ == Unfinished::kKept ? parts : temporaries) {
    const char* was = there ? nullptr : name;
    if (place.compare_exchange_strong(was, there ? name : nullptr)) break;
  }
  while (!there && readers > 0) std::this_thread::yield();  // a handler may hold the name, which is freed next
}

AtomicFile::AtomicFile(std::string path, Unfinished unfinished) : path_(std::move(path)), unfinished_(unfinished) {
  require(!path_.empty(), "cannot write a file without a name");
  if (is_standard_output(path_)) {
    path_ = "-";
    descriptor_ = STDOUT_FILENO;
    return;
  }
  if (const int named = named_descriptor(path_); named >= 0) {
    descriptor_ = ::fcntl(named, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    require(descriptor_ >= 0, "cannot write {}: {}", path_, std::strerror(errno));
    return;
  }
  struct stat status;
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {  // renaming would replace /dev/null by a file
    require(!S_ISDIR(status.st_mode), "cannot write {}: it is a folder", path_);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    require(descriptor_ >= 0, "cannot write {}: {}", path_, std::strerror(errno));
    return;
  }
  // Its folder alone says whether it can be replaced; a file that is protected is meant to stay.
  if (exists && ::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0)
    user_error("cannot write {}: {}", path_, std::strerror(errno));
  target_ = link_target(path_);
  const mode_t mode = exists ? status.st_mode & 07777 : 0666;  // a secret stays one
  const auto create = [&](std::string name) {
    if (::lstat(name.c_str(), &status) == 0) {  // another's: it is not listed for a moment
      errno = EEXIST;
      return false;
    }
    temporary_ = std::move(name);
    list(true);  // before it is there: a signal between would leave it behind
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ >= 0) return true;
    const int error = errno;
    list(false);
    errno = error;
    return error != EEXIST;
  };
  // Its name may be there: of a program that had this number and was killed, or has it in another container.
  const std::string name =
      fmt::format("{}{}{}", target_, unfinished_ == Unfinished::kKept ? kUnfinished : kTemporary, ::getpid());
  bool done = create(name);
  for (int i = 1; !done && i < 1000; ++i) done = create(fmt::format("{}.{}", name, i));
  require(descriptor_ >= 0, "cannot write {}: {}", path_, std::strerror(errno));
  if (exists) ::fchmod(descriptor_, mode);  // without the umask
}

AtomicFile::~AtomicFile() {
  const bool kept = unfinished_ == Unfinished::kKept && !temporary_.empty() && written_ > 0 &&
                    (descriptor_ < 0 ||                         // commit() has closed it, whole
                     ::ftruncate(descriptor_, written_) == 0);  // no half line, where a disk was full
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
  if (temporary_.empty()) return;
  if (!kept) ::unlink(temporary_.c_str());
  list(false);
  if (!kept) return;
  try {
    log::warn("{}{}", temporary_, kPart);
  } catch (...) {  // an earlier error is under way
  }
}

void AtomicFile::write(const void* data, size_t bytes) {
  constexpr size_t kBuffer = 1 << 20;
  buffer_.append(static_cast<const char*>(data), bytes);
  if (buffer_.size() >= kBuffer) flush();
}

bool AtomicFile::is_terminal() const { return ::isatty(descriptor_) == 1; }

void AtomicFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && can_go_on(descriptor_, POLLOUT)) continue;
    if (written <= 0) fail("cannot write {}: {}", output_name(path_), std::strerror(errno));
    done += static_cast<size_t>(written);
  }
  written_ += std::ssize(buffer_);
  buffer_.clear();
}

void AtomicFile::send() {
  if (temporary_.empty() || unfinished_ == Unfinished::kKept) flush();
}

void AtomicFile::commit() {
  flush();
  if (temporary_.empty()) return;
  if (::fsync(descriptor_) != 0) fail("cannot write {}: {}", path_, std::strerror(errno));
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot write {}: {}", path_, std::strerror(errno));
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot write {}: {}", path_, std::strerror(errno));
  list(false);
  temporary_.clear();
  // The rename itself must reach the disk as well.
  const auto folder = std::filesystem::path(target_).parent_path();
  const int parent = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    ::fsync(parent);
    ::close(parent);
  }
}

std::optional<Temporary> temporary(std::string_view name) {
  const size_t end = name.rfind(kTemporary);
  if (end == name.npos) return std::nullopt;
  const std::string_view numbers = name.substr(end + kTemporary.size());
  const size_t dot = std::min(numbers.find('.'), numbers.size());
  const auto owner = parse_number<int>(numbers.substr(0, dot));
  const bool is_one = owner && *owner > 0 && (dot == numbers.size() || parse_number<int>(numbers.substr(dot + 1)));
  return is_one ? std::optional(Temporary{name.substr(0, end), *owner}) : std::nullopt;
}

void write_output(std::string_view text) {
  AtomicFile output("-");
  output.write(text);
  output.commit();
}

bool is_standard_output(const std::string& path) { return named_descriptor(path) == STDOUT_FILENO; }
bool is_standard_input(const std::string& path) { return path == "-" || named_descriptor(path) == STDIN_FILENO; }

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }
std::string output_name(const std::string& path) { return is_standard_output(path) ? "standard output" : path; }

void end_last_line(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return;
  std::ifstream file(path, std::ios::binary);
  if (file.seekg(-1, std::ios::end) && file.get() != '\n') std::ofstream(path, std::ios::app) << '\n';
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  if (is_standard_output(a) && is_standard_output(b)) return true;
  if (is_standard_output(a) || is_standard_output(b)) {
    struct stat output, file;
    return ::fstat(STDOUT_FILENO, &output) == 0 && S_ISREG(output.st_mode) &&
           ::stat((is_standard_output(a) ? b : a).c_str(), &file) == 0 && output.st_dev == file.st_dev &&
           output.st_ino == file.st_ino;
  }
  if (is_no_regular_file(a)) return false;
  const auto canonical = [&](const std::string& path) {  // empty where it cannot be looked at
    const bool is_there = std::filesystem::status(path, failed).type() != std::filesystem::file_type::not_found;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(is_there ? path : link_target(path), failed),
                                             failed);
  };
  const auto whole = canonical(a);
  return a == b || (!whole.empty() && whole == canonical(b));
}

}  // namespace nmt
