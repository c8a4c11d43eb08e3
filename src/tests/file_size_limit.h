#pragma once

#include <csignal>

#include <sys/resource.h>

#include "base/error.h"

namespace nmt::testing {

// As long as it lives no file of this process grows beyond so many bytes: a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    check(::getrlimit(RLIMIT_FSIZE, &before_) == 0, "getrlimit");
    const rlimit small{bytes, before_.rlim_max};
    check(::setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace nmt::testing
