#include "config/option_files.h"

#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

TEST_CASE("standard input is one under all its names") {
  for (const char* other : {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
    CHECK(complaint_of([&] { OptionFiles().reads("input", "-").reads("reference", other); }) ==
          "standard input is asked for twice: --input and --reference");
}

TEST_CASE("two files that cannot be looked at are not one") {
  const std::string a(300, 'a'), b(300, 'b');
  CHECK_NOTHROW(OptionFiles().reads("input", a).writes("output", b));
  CHECK_THROWS_AS(OptionFiles().reads("input", a).writes("output", a), UserError);
}

TEST_CASE("a device may be read and written") {
  CHECK_NOTHROW(OptionFiles().reads("input", "/dev/null").writes("output", "/dev/null"));
}

TEST_CASE("what is written for many numbers is none of the files that are read") {
  const auto refused = [](const std::string& read, const std::string& written) {
    const auto message = complaint_of([&] { OptionFiles().reads("input", read).writes_numbered("output", written); });
    const std::string expected = "--input and --output are one file, " + read;
    CHECK((message.empty() || message == expected + ": what is written needs a file of its own"));
    return !message.empty();
  };
  CHECK(refused("dev.200", "dev.{U}"));
  CHECK(refused("dev.2000", "dev.{U}0"));
  CHECK(refused("a/dev.7.out.7", "./a/dev.{U}.out.{U}"));
  for (const char* other : {"dev.", "dev.x", "dev.200.en", "dev.0200", "a/dev.200", "dev.99999999999999999999"}) {
    INFO(other);
    CHECK(!refused(other, "dev.{U}"));
  }
  CHECK_NOTHROW(OptionFiles().reads("input", "dev.200").writes("output", "dev.{U}"));
}

TEST_CASE("a configuration is not written over") {
  const TempFolder folder;
  const std::string config = folder / "c.cfg";
  std::ofstream(config) << "number = 2\n";
  int number = 1;
  Options options;
  options.add("number", number, "");
  options.read_config(config);
  CHECK_NOTHROW(OptionFiles(options).writes("output", config + "2"));
  CHECK(complaint_of([&] {
          OptionFiles(options).writes("output", config);
        }).starts_with("--config and --output are one file"));
}
