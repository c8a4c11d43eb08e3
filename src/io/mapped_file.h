#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace nmt {

// A whole regular file in memory, by mmap: pages are read where they are touched. Replacing the file by rename or
// removing it leaves the mapping intact; nobody may write to it in place or shorten it.
class MappedFile {
 public:
  // Throws UserError where the file cannot be read, OutOfMemory or Error where it cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }
  // Whether somebody has written to the file, or touched it, since it was opened: what was read may be of either
  // content.
  bool changed() const;

  // Makes the pages of a part copies of this process's own, if the system allows it: reading them does not map others
  // of the file.
  void copy(std::span<const std::byte> part);
  // Gives the pages of a part and those near it back to the system, except copies; they are read again if touched
  // again.
  void release(std::span<const std::byte> part) const;

 private:
  std::string path_;
  // As it was opened: device, inode, size, and the last change in seconds and nanoseconds.
  std::array<int64_t, 5> version_ = {};
  std::span<const std::byte> bytes_;
  std::map<uintptr_t, uintptr_t> copies_;  // begin and end
};

}  // namespace nmt
