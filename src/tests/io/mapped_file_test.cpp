#include "io/mapped_file.h"

#include <cstddef>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace nmt;

namespace {

constexpr size_t kPage = 64 << 10;  // a multiple of the system's

TEST_CASE("What is released is the file's again, but for copied pages") {
  TempFolder folder;
  const std::string path = folder / "file";
  constexpr size_t kPages = 100;
  std::ofstream(path, std::ios::binary) << std::string(kPages * kPage, 'f');
  MappedFile mapped(path);
  auto* const bytes = const_cast<std::byte*>(mapped.bytes().data());
  const auto page = [&](size_t i) { return mapped.bytes().subspan(i * kPage, kPage); };
  // What is written to pages shows which of them are dropped; one copy is of a byte only, one overlaps another.
  mapped.copy(page(51).first(1));
  mapped.copy(page(99));
  mapped.copy(mapped.bytes().subspan(48 * kPage, 2 * kPage));
  mapped.copy(page(48));
  for (size_t i = 0; i < kPages; ++i) bytes[i * kPage] = std::byte{'w'};
  const MappedFile moved = std::move(mapped);

  const auto written = [&] {
    std::string s;
    for (size_t i = 0; i < kPages; ++i) s += static_cast<char>(bytes[i * kPage]);
    return s;
  };
  moved.release(moved.bytes().subspan(50 * kPage, kPage));
  std::string near(kPages, 'w');
  for (size_t i = 50 - 32; i < 51 + 32; ++i) near[i] = 'f';
  near[48] = near[49] = near[51] = 'w';
  CHECK(written() == near);

  moved.release(moved.bytes().first(0));
  moved.release(moved.bytes());
  std::string all(kPages, 'f');
  all[48] = all[49] = all[51] = all[99] = 'w';
  CHECK(written() == all);
}

}  // namespace
