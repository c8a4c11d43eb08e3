#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace nmt {

// A whole regular file in memory, by mmap: pages are read where they are touched. Replacing the file by rename or
// removing it leaves the mapping intact; nobody may shorten it in place.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws UserError where the file cannot be read
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Makes the pages of a part copies of this process's own, if the system allows it: reading them does not map others
  // of the file.
  void copy(std::span<const std::byte> part);
  // Gives the pages of a part and those near it back to the system, except copies; they are read again if touched
  // again.
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
  std::map<uintptr_t, uintptr_t> copies_;  // begin and end
};

}  // namespace nmt
