// Options: values from text, config files, dumps.
#include "config/options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <sched.h>

#include "base/error.h"
#include "base/philox.h"
#include "config/computing.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;

namespace {

struct Everything {
  bool flag = false, on = true;
  int count = 3;
  int64_t large = -5;
  uint64_t seed = 7;
  double rate = 0.1;
  std::string name = "plain", empty;
  std::vector<int> sizes{1, 2};
  std::vector<double> weights;
  std::vector<std::string> files{"a", "b"};

  void declare(Options& o) {
    o.group("First");
    o.add("flag", flag, "A flag");
    o.add("on", on, "A flag that is set");
    o.add("count", count, "A number").range(-10, 10);
    o.add("large", large, "A large number");
    o.group("Second");
    o.add("seed", seed, "A seed");
    o.add("rate", rate, "A rate").range(0, 1e300);
    o.add("name", name, "A name");
    o.add("empty", empty, "Nothing");
    o.add("sizes", sizes, "Sizes");
    o.add("weights", weights, "Weights");
    o.add("files", files, "Files");
  }

  bool operator==(const Everything&) const = default;
};

struct Declared : Everything {
  Declared() { declare(options); }
  Declared(const Declared&) = delete;
  Option& operator[](const std::string& name) { return *options.find(name); }
  Options options;
};

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("options take values of their type", "[config]") {
  Declared d;
  CHECK_FALSE(d["count"].given());
  d["count"].set({"-7"});
  CHECK(d.count == -7);
  CHECK(d["count"].given());
  d["large"].set({"-9223372036854775808"});
  CHECK(d.large == std::numeric_limits<int64_t>::min());
  d["seed"].set({"18446744073709551615"});
  CHECK(d.seed == UINT64_MAX);
  d["rate"].set({"2.5e-3"});
  CHECK(d.rate == 2.5e-3);
  d["name"].set({" any = text # at all "});
  CHECK(d.name == " any = text # at all ");
  d["sizes"].set({"5", "-6", "7"});
  CHECK(d.sizes == std::vector<int>{5, -6, 7});
  d["weights"].set({});
  CHECK(d.weights.empty());
  for (const char* yes : {"true", "1", "yes", "on"}) {
    d.flag = false;
    d["flag"].set({yes});
    CHECK(d.flag);
  }
  for (const char* no : {"false", "0", "no", "off"}) {
    d.flag = true;
    d["flag"].set({no});
    CHECK_FALSE(d.flag);
  }
  CHECK(d["flag"].is_flag());
  CHECK_FALSE(d["flag"].is_list());
  CHECK(d["files"].is_list());
}

TEST_CASE("values that do not fit are refused by name, and change nothing", "[config]") {
  Declared d;
  const auto refused = [&](const std::string& option, const std::vector<std::string>& values) {
    INFO(option << ": " << (values.empty() ? "" : values[0]));
    const Everything before = d;
    CHECK(contains(complaint_of([&] { d[option].set(values); }), "--" + option));
    CHECK(static_cast<const Everything&>(d) == before);
    CHECK_FALSE(d[option].given());
  };
  for (const char* text : {"", " 1", "1 ", "1.5", "x", "0x10", "+1", "2147483648", "99999999999999999999", "1\n"})
    refused("count", {text});
  refused("count", {"11"});
  refused("count", {"-11"});
  refused("count", {"1", "2"});
  refused("count", {});
  refused("seed", {"-1"});
  refused("seed", {"18446744073709551616"});
  for (const char* text : {"", "x", "1,5", "1e999", "-0.5", "nan", "inf"}) refused("rate", {text});
  for (const char* text : {"", "maybe", "TRUE", "2"}) refused("flag", {text});
  refused("sizes", {"1", "2", "x"});
  CHECK_NOTHROW(d["count"].set({"10"}));  // bounds are included
  CHECK_NOTHROW(d["count"].set({"-10"}));
}

TEST_CASE("choices and checks", "[config]") {
  Options options;
  std::string kind = "a";
  std::vector<std::string> several;
  options.add("kind", kind, "").choices({"a", "b"});
  options.add("several", several, "").choices({"x", "y"}).check([](const std::string& value) {
    require(value != "y", "y is not for today");
  });
  options.find("kind")->set({"b"});
  CHECK(kind == "b");
  CHECK(complaint_of([&] { options.find("kind")->set({"c"}); }) == "--kind: 'c' is not one of: a, b");
  CHECK(complaint_of([&] { options.find("several")->set({"x", "z"}); }) == "--several: 'z' is not one of: x, y");
  CHECK(complaint_of([&] { options.find("several")->set({"x", "y"}); }) == "y is not for today");
  CHECK(options.find("unknown") == nullptr);
  CHECK_THROWS_AS(options.add("kind", kind, ""), std::logic_error);
}

TEST_CASE("a dump is a config file that gives the same values", "[config]") {
  const TempFolder folder;
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    Declared written;
    const auto number = [&] { return static_cast<int64_t>(uint64_t{random.next()} << 32 | random.next()); };
    written.flag = random.below(2) == 0;
    written.on = random.below(2) == 0;
    written.count = static_cast<int>(random.below(21)) - 10;
    written.large = number();
    written.seed = static_cast<uint64_t>(number());
    written.rate = random.uniform() * std::pow(10.0, static_cast<double>(random.below(40)) - 20);
    written.name = "x" + std::to_string(number()) + "/with = and \"quotes\" [and] ;more";
    if (round % 7 == 0) written.files = {"", "x"};
    written.sizes.clear();
    for (uint64_t i = 0; i < 1 + random.below(4); ++i) written.sizes.push_back(static_cast<int>(number()));
    for (uint64_t i = 0; i < random.below(3); ++i) written.weights.push_back(random.uniform());
    write(folder / "c", written.options.dump());
    Declared read;
    read.options.read_config(folder / "c");
    CHECK(static_cast<const Everything&>(read) == static_cast<const Everything&>(written));
    CHECK(read.options.dump() == written.options.dump());
  }
}

TEST_CASE("what is given is told as a shell takes it", "[config]") {
  Declared o;
  CHECK(o.options.command_line().empty());
  o["flag"].set({"true"});
  o["on"].set({"false"});
  o["rate"].set({"1e-3"});
  o["name"].set({"it's"});
  o["empty"].set({""});
  o["files"].set({"a/b-c.de", "$HOME *", "\""});
  CHECK(o.options.command_line() ==
        R"(--flag --no-on --rate 0.001 --name 'it'\''s' --empty '' --files a/b-c.de '$HOME *' '"')");
}

TEST_CASE("text that a config file cannot hold is told, not taken for something else", "[config]") {
  const TempFolder folder;
  for (const std::string name : {"a#b", "#", " leading", "trailing ", "two\nlines", "\ttab", "return\r"}) {
    INFO(name);
    Declared written;
    written.name = name;
    try {
      written.options.require_lines();
    } catch (const UserError& error) {
      CHECK(contains(error.what(), "--name"));
      continue;
    }
    write(folder / "c", written.options.dump());
    Declared read;
    read.options.read_config(folder / "c");
    CHECK(read.name == name);
  }
}

TEST_CASE("config files", "[config]") {
  const TempFolder folder;
  const std::string path = folder / "train.conf";
  Declared d;

  SECTION("comments, blanks, spaces, carriage returns, no last newline") {
    write(
        path,
        "# comment\n\n   \n  count=4  \r\nname = two words  # and why\nfiles = x\nfiles = y\nflag = true\nrate = 0.5");
    d.options.read_config(path);
    CHECK(d.count == 4);
    CHECK(d.name == "two words");
    CHECK(d.files == std::vector<std::string>{"x", "y"});
    CHECK(d.flag);
    CHECK(d.rate == 0.5);
    CHECK(d["count"].given());
    CHECK_FALSE(d["seed"].given());
  }
  SECTION("what was given before stays") {
    d["count"].set({"9"});
    d["files"].set({"z"});
    write(path, "count = 4\nfiles = x\nseed = 5\n");
    d.options.read_config(path);
    CHECK(d.count == 9);
    CHECK(d.files == std::vector<std::string>{"z"});
    CHECK(d.seed == 5);
    write(folder / "second", "seed = 6\nrate = 0.25\n");
    d.options.read_config(folder / "second");
    CHECK(d.seed == 5);
    CHECK(d.rate == 0.25);
  }
  SECTION("mistakes are told with file and line") {
    const auto complaint = [&](const std::string& text) {
      write(path, text);
      return complaint_of([&] { Declared().options.read_config(path); });
    };
    CHECK(complaint("count = 1\n\nconut = 2\n") == path + ":3: unknown key 'conut'; is 'count' meant?");
    CHECK(complaint("count = 1\nseed = 3\ncount = 2\n") == path + ":3: 'count' is set twice");
    CHECK(complaint("count\n") == path + ":1: expected `key = value`");
    CHECK_FALSE(complaint("= 3\n").empty());
    CHECK(complaint(std::string("name = a\ncount = 3\0u\n", 21)) == path + ":2: a NUL byte: this is no text");
    CHECK_FALSE(complaint("count = \n").empty());
    CHECK(complaint("count = many\n") == path + ":1: --count: 'many' is not a number");
    CHECK(complaint("\nsizes = 1\nsizes = x\n") == path + ":3: --sizes: 'x' is not a whole number that fits");
    CHECK(complaint("count = 11\n") == path + ":1: --count: 11 is not between -10 and 10");
    CHECK_FALSE(complaint("[section]\ncount = 1\n").empty());
    CHECK_FALSE(complaint("--count = 1\n").empty());
    CHECK_FALSE(complaint(std::string("co\0unt = 1\n", 11)).empty());
    CHECK_FALSE(complaint("\xff\xfe\n").empty());
    CHECK(complaint_of([&] { d.options.read_config(folder / "missing"); }) ==
          "cannot read " + (folder / "missing") + ": No such file or directory");
    CHECK(contains(complaint_of([&] { d.options.read_config(folder.path()); }), folder.path()));
    CHECK(contains(complaint_of([&] { d.options.read_config("-"); }), "not read from standard input"));
  }
}

TEST_CASE("a default must be a value that could be given", "[config]") {
  Options options;
  int count = 0;
  std::string kind = "huge", none;
  std::vector<int> sizes{1, 20};
  CHECK_THROWS_AS(options.add("count", count, "").range(1, 10), std::logic_error);
  CHECK_THROWS_AS(options.add("kind", kind, "").choices({"small", "large"}), std::logic_error);
  CHECK_THROWS_AS(options.add("sizes", sizes, "").range(1, 10), std::logic_error);
  CHECK_THROWS_AS(options.add("other", kind, "").check([](const std::string&) { user_error("never"); }),
                  std::logic_error);
  options.add("none", none, "").choices({"small", "large"});
}

TEST_CASE("a container's share of the cores counts", "[config]") {
  const auto cores = [](const char* text) {
    std::istringstream limit(text);
    return cores_of_quota(limit);
  };
  CHECK(cores("200000 100000\n") == 2);
  CHECK(cores("150000 100000\n") == 2);
  CHECK(cores("1000 100000\n") == 1);
  CHECK(cores("9000000000000000000 1\n") == 4096);
  for (const char* none : {"max 100000\n", "", "200000", "200000 0", "-1 100000", "x"}) CHECK(!cores(none));
}

TEST_CASE("the fewest cores of a process's control groups count", "[config]") {
  const TempFolder folder;
  const auto root = std::filesystem::path(folder.path()) / "groups", inner = root / "user.slice" / "of one";
  std::filesystem::create_directories(inner);
  const auto limit = [](const std::filesystem::path& group, const char* quota) {
    std::ofstream(group / "cpu.max") << quota << '\n';
  };
  const auto cores = [&](const char* membership) {
    std::istringstream groups(membership);
    return cores_of_groups(groups, root);
  };
  constexpr const char* kInner = "0::/user.slice/of one\n";
  CHECK(!cores(kInner));
  limit(inner, "max 100000");
  limit(root / "user.slice", "300000 100000");
  CHECK(cores(kInner) == 3);
  CHECK(cores("0::/user.slice\n") == 3);
  CHECK(!cores("0::/\n"));
  limit(inner, "200000 100000");
  CHECK(cores("2:cpuacct:/\n0::/user.slice/of one\n") == 2);
  limit(root, "100000 100000");  // as a container sees its own
  CHECK(cores(kInner) == 1);
  CHECK(cores("0::/\n") == 1);
  CHECK(cores("0::/of another/container\n") == 1);
  CHECK(cores("") == 1);
  CHECK(cores("0:://user.slice") == 1);
  std::filesystem::remove(root / "cpu.max");
  for (const char* none : {"", "0::", "0:://", "1:cpu:/user.slice\n", "/user.slice\n"}) CHECK(!cores(none));
}

TEST_CASE("no number of threads means one a core", "[config]") {
  Options options;
  int threads = 0;
  Option& option = declare_threads(options, threads);
  CHECK(option.name() == "cpu-threads");
  CHECK(threads_or_all(threads) >= 1);
  cpu_set_t before, one;  // cores that this thread may run on
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(threads_or_all(threads) == 1);
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  const int all = CPU_COUNT(&before);
  std::ifstream membership("/proc/self/cgroup");
  CHECK(threads_or_all(threads) == std::min(all, cores_of_groups(membership, "/sys/fs/cgroup").value_or(all)));
  option.set({"3"});
  CHECK(threads_or_all(threads) == 3);
  CHECK_THROWS_AS(option.set({"-1"}), UserError);
}
