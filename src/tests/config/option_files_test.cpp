#include "config/option_files.h"

#include <string>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/complaint.h"

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
