#include "io/mapped_file.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace nmt;

namespace {

constexpr size_t kPage = 64 << 10, kPages = 100;  // a multiple of the system's

// Of each page, by what Linux tells of its first: '-' is not in this process's memory, 'f' is the file's, 'c' a copy.
std::string where(std::span<const std::byte> bytes) {
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  REQUIRE(map >= 0);
  std::string pages;
  for (size_t i = 0; i < kPages; ++i) {
    const auto number =
        (reinterpret_cast<uintptr_t>(bytes.data()) + i * kPage) / static_cast<uintptr_t>(::getpagesize());
    uint64_t entry = 0;
    REQUIRE(::pread(map, &entry, sizeof entry, static_cast<off_t>(number * sizeof entry)) == sizeof entry);
    const bool present = entry >> 63 & 1, of_file = entry >> 61 & 1;
    pages += !present ? '-' : of_file ? 'f' : 'c';
  }
  ::close(map);
  return pages;
}

TEST_CASE("What is released leaves memory, but for copied pages, and can be read again") {
  TempFolder folder;
  const std::string path = folder / "file";
  std::ofstream(path, std::ios::binary) << std::string(kPages * kPage, 'f');
  MappedFile mapped(path);
  // One copy is of a byte only, one overlaps another.
  mapped.copy(mapped.bytes().subspan(51 * kPage, 1));
  mapped.copy(mapped.bytes().subspan(99 * kPage));
  mapped.copy(mapped.bytes().subspan(48 * kPage, 2 * kPage));
  mapped.copy(mapped.bytes().subspan(48 * kPage, kPage));
  const MappedFile moved = std::move(mapped);
  const auto read = [&] { CHECK(std::ranges::all_of(moved.bytes(), [](std::byte b) { return b == std::byte{'f'}; })); };
  std::string all(kPages, 'f'), none(kPages, '-');
  for (std::string* pages : {&all, &none}) (*pages)[48] = (*pages)[49] = (*pages)[51] = (*pages)[99] = 'c';

  read();
  CHECK(where(moved.bytes()) == all);
  moved.release(moved.bytes().subspan(50 * kPage, kPage));
  const auto near = where(moved.bytes());  // large pages of the file cache reach farther
  CHECK(near.substr(50 - 32, 65) == none.substr(50 - 32, 65));
  CHECK(near[99] == 'c');
  read();
  CHECK(where(moved.bytes()) == all);
  moved.release(moved.bytes());
  CHECK(where(moved.bytes()) == none);
  read();
}

TEST_CASE("What is written to a mapped file is noticed, not what replaces it") {
  TempFolder folder;
  const std::string path = folder / "file";
  std::ofstream(path) << "one content";
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  MappedFile mapped(path);
  const MappedFile moved = std::move(mapped);
  std::ofstream(folder / "other") << "another";
  std::filesystem::rename(folder / "other", path);
  CHECK(!moved.changed());
  const MappedFile other(path);
  CHECK(!other.changed());
  const auto before = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, before - std::chrono::hours(1));
  CHECK(other.changed());
  std::filesystem::last_write_time(path, before);
  CHECK(!other.changed());
  std::ofstream(path, std::ios::app) << "more";
  std::filesystem::last_write_time(path, before);
  CHECK(other.changed());
  CHECK(!moved.changed());
  std::filesystem::remove(path);
  CHECK(!other.changed());
}

}  // namespace
