#pragma once

#include <string>

namespace nmt {

// What one process at a time has, whatever it is killed by: a file that it holds from construction to destruction, when
// the file goes. (One that was killed leaves the file, which nobody holds then.) Where a file system knows no locks,
// everybody has it.
class FileLock {
 public:
  // Throws UserError with `taken` where another has it, or one that says why the file cannot be made.
  FileLock(std::string path, const std::string& taken);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace nmt
