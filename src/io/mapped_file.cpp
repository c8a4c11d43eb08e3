#include "io/mapped_file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace nmt {

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, "cannot read {}: {}", path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  void* address = MAP_FAILED;
  const auto size = regular ? static_cast<size_t>(status.st_size) : 0;
  if (size > 0) address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  require(!known || !S_ISDIR(status.st_mode), "{} is a folder, not a file", path);
  require(regular, "cannot read {}: not a regular file", path);
  if (size == 0) return;
  if (address == MAP_FAILED) fail("cannot map {} into memory: {}", path, std::strerror(reason));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  // The border pages may hold neighbours' bytes: they are clean, so nothing is lost.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace nmt
