#include "io/mapped_file.h"

#include <algorithm>
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
namespace {

uintptr_t page_size() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

struct Pages {
  uintptr_t begin, end;
};

Pages pages_of(std::span<const std::byte> part) {
  const auto page = page_size(), begin = reinterpret_cast<uintptr_t>(part.data());
  return {begin / page * page, (begin + part.size() + page - 1) / page * page};
}

void give_back(uintptr_t begin, uintptr_t end) {
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::array<int64_t, 5> version_of(const struct stat& s) {
  return {static_cast<int64_t>(s.st_dev), static_cast<int64_t>(s.st_ino), s.st_size, s.st_mtim.tv_sec,
          s.st_mtim.tv_nsec};
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, "cannot read {}: {}", path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  void* address = MAP_FAILED;
  const auto size = regular ? static_cast<size_t>(status.st_size) : 0;
  if (size > 0) address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  require(!known || !S_ISDIR(status.st_mode), "cannot read {}: it is a folder", path);
  require(regular, "cannot read {}: not a regular file", path);
  if (size == 0) return;
  if (address == MAP_FAILED) {
    const auto why = fmt::format("cannot map {} into memory: {}", path, std::strerror(reason));
    if (reason == ENOMEM) throw OutOfMemory(why);
    throw Error(why);
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
  path_ = path;
  version_ = version_of(status);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(version_, other.version_);
  std::swap(bytes_, other.bytes_);
  std::swap(copies_, other.copies_);
  return *this;
}

bool MappedFile::changed() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return false;  // it was removed
  const auto now = version_of(status);
  const bool replaced = now[0] != version_[0] || now[1] != version_[1];
  return !replaced && now != version_;
}

void MappedFile::copy(std::span<const std::byte> part) {
  const auto [begin, end] = pages_of(part);
  if (::mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE) != 0) return;
  for (uintptr_t at = begin; at < end; at += page_size()) {
    auto* const byte = reinterpret_cast<volatile char*>(at);
    *byte = *byte;  // writing makes the copy
  }
  ::mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ);
  copies_[begin] = std::max(copies_[begin], end);
}

void MappedFile::release(std::span<const std::byte> part) const {
  // A page that is touched can bring in all of the large page of the file cache that it is in (Linux 6.18), so those
  // around it, too.
  constexpr uintptr_t kLargePage = 2 << 20;
  const Pages all = pages_of(bytes_), touched = pages_of(part);
  uintptr_t begin = std::max(all.begin + kLargePage, touched.begin) - kLargePage;
  const uintptr_t end = std::min(all.end, touched.end + kLargePage);
  for (auto copy = copies_.begin(); copy != copies_.end() && copy->first < end; ++copy) {
    give_back(begin, copy->first);
    begin = std::max(begin, copy->second);
  }
  give_back(begin, end);
}

}  // namespace nmt
