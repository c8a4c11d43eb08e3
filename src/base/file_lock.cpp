#include "base/file_lock.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace nmt {
namespace {

// Whoever had it before may have removed the file meanwhile.
bool is_there(int descriptor, const std::string& path) {
  struct stat held {
  }, named{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(std::string path, const std::string& taken) : path_(std::move(path)) {
  do {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "cannot write {}: {}", path_, std::strerror(errno));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) continue;
    if (errno != EWOULDBLOCK) return;
    ::close(descriptor_);
    user_error("{}", taken);
  } while (!is_there(descriptor_, path_));
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());  // before others can have it
  ::close(descriptor_);
}

}  // namespace nmt
