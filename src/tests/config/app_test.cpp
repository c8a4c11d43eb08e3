// Command lines: what a tool does, prints and returns.
#include "config/app.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "tests/catch.h"
#include "tests/temp_folder.h"

using namespace nmt;

namespace {

// Standard output and error of this process go to files while it lives.
class Captured {
 public:
  explicit Captured(const TempFolder& folder) : out_(folder / "stdout"), err_(folder / "stderr") {
    std::fflush(nullptr);
    for (const int fd : {1, 2}) {
      saved_[fd - 1] = ::dup(fd);
      const int file = ::open((fd == 1 ? out_ : err_).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, fd);
      ::close(file);
    }
  }
  ~Captured() { restore(); }
  Captured(const Captured&) = delete;

  void restore() {
    std::fflush(nullptr);
    std::cout.flush();
    for (const int fd : {1, 2}) {
      if (saved_[fd - 1] < 0) continue;
      ::dup2(saved_[fd - 1], fd);
      ::close(saved_[fd - 1]);
      saved_[fd - 1] = -1;
    }
  }
  std::string out() const { return read(out_); }
  std::string err() const { return read(err_); }

 private:
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string out_, err_;
  int saved_[2] = {-1, -1};
};

struct Tool {
  Tool() : app("nmt-tool", "Does things") {
    app.options().add("input", input, "Files to read").positional();
    app.options().add("count", count, "How many").range(1, 10).short_name('n');
    app.options().add("kind", kind, "Which kind").choices({"small", "large"});
    app.options().add("verbose", verbose, "Say more");
    app.options().add("tied", tied, "Tie");
    app.options().add("weights", weights, "Weights");
    app.options().add("output", output, "Where to").required();
    app.footer("Examples:\n  nmt-tool --output x");
    app.run([this] {
      ++runs;
      body();
    });
  }

  int call(std::vector<std::string> words) {
    words.insert(words.begin(), "nmt-tool");
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    Captured captured(folder);
    const int code = app.main(static_cast<int>(argv.size()), argv.data());
    captured.restore();
    out = captured.out();
    err = captured.err();
    return code;
  }

  TempFolder folder;
  App app;
  std::vector<std::string> input;
  int count = 3, runs = 0;
  std::string kind = "small", output;
  bool verbose = false, tied = true;
  std::vector<double> weights;
  std::function<void()> body = [] {};
  std::string out, err;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a command line reaches its options", "[config]") {
  Tool t;
  REQUIRE(t.call({"a", "b", "--output", "o", "-n", "7", "--kind=large", "--verbose", "--no-tied", "--weights", "1",
                  "2.5", "--count", "8"}) == 0);
  CHECK(t.runs == 1);
  CHECK(t.input == std::vector<std::string>{"a", "b"});
  CHECK(t.output == "o");
  CHECK(t.count == 8);  // the last one counts
  CHECK(t.kind == "large");
  CHECK(t.verbose);
  CHECK_FALSE(t.tied);
  CHECK(t.weights == std::vector<double>{1, 2.5});
  CHECK(t.out.empty());
  CHECK(t.err.empty());
}

TEST_CASE("flags take values too", "[config]") {
  Tool t;
  REQUIRE(t.call({"--output", "o", "--tied=false", "--verbose=true"}) == 0);
  CHECK(t.verbose);
  CHECK_FALSE(t.tied);
}

TEST_CASE("a user's mistakes give one line and exit code 2", "[config]") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes{
      {{}, "--output is missing"},
      {{"--output"}, "--output"},
      {{"--output", "o", "--unknown"}, "--unknown"},
      {{"--output", "o", "--count", "x"}, "--count"},
      {{"--output", "o", "--count", "11"}, "--count: 11 is not between 1 and 10"},
      {{"--output", "o", "--count", ""}, "--count"},
      {{"--output", "o", "--kind", "huge"}, "--kind: 'huge' is not one of: small, large"},
      {{"--output", "o", "--weights", "x"}, "--weights"},
      {{"--output", "o", "--verbose=maybe"}, "verbose"},
      {{"--output", "o", "--config", "/nonexistent/c"}, "/nonexistent/c"},
      {{"--output", "o", "-z"}, "'-z' was not expected (see"},
      {{"--output", "o", "--cuont=7"}, "'--cuont=7' was not expected; is --count meant? (see"},
      {{"--output", "o", "--out_put", "p"}, "; is --output meant?"},
      {{"--output", "o", "--no-teid"}, "; is --no-tied meant?"},
      {{"--output", "o", "--cou", "5"}, "; is --count meant?"},
      {{"--output", "o", "--dump"}, "; is --dump-config meant?"},
      {{"--output", "o", "--input", "a"}, "'--input' was not expected (see"},  // its words have no name before them
  };
  for (const auto& [words, part] : mistakes) {
    Tool t;
    INFO(part);
    CHECK(t.call(words) == 2);
    CHECK(t.runs == 0);
    CHECK(t.out.empty());
    INFO(t.err);
    CHECK(t.err.starts_with("nmt-tool: error: "));
    CHECK(contains(t.err, part));
    CHECK(std::ranges::count(t.err, '\n') == 1);
    CHECK(t.err.ends_with("\n"));
  }
}

TEST_CASE("exit codes follow the exception", "[config]") {
  Tool t;
  t.body = [] { user_error("file:3: bad"); };
  CHECK(t.call({"--output", "o"}) == 2);
  CHECK(t.err == "nmt-tool: error: file:3: bad\n");
  Tool lines;
  lines.body = [] { user_error("'a\nb' is bad"); };
  CHECK(lines.call({"--output", "o"}) == 2);
  CHECK(lines.err == "nmt-tool: error: 'a b' is bad\n");
  Tool failed;
  failed.body = [] { fail("disk full"); };
  CHECK(failed.call({"--output", "o"}) == 1);
  CHECK(failed.err == "nmt-tool: error: disk full\n");
  Tool wrong;
  wrong.body = [] { throw std::logic_error("impossible"); };
  CHECK(wrong.call({"--output", "o"}) == 1);
  CHECK(wrong.err == "nmt-tool: error: impossible\n");
  Tool poor;
  poor.body = [] { throw std::bad_alloc(); };
  CHECK(poor.call({"--output", "o"}) == 2);
  CHECK(poor.err == "nmt-tool: error: out of memory\n");
  for (const bool of_host : {true, false}) {
    Tool advised;
    advised.body = [&] {
      advise_on_memory("fewer --chairs need less", [&] {  // said already
        advise_on_memory("more --devices need less", [&] {
          if (of_host) throw std::bad_alloc();
          throw OutOfMemory("out of memory on device 3");
        });
      });
    };
    CHECK(advised.call({"--output", "o"}) == 2);
    CHECK(advised.err == (of_host ? "nmt-tool: error: out of memory; more --devices need less\n"
                                  : "nmt-tool: error: out of memory on device 3; more --devices need less\n"));
  }
  Tool stopped;
  stopped.body = [] { throw Exit{143}; };
  CHECK(stopped.call({"--output", "o"}) == 143);
  CHECK(stopped.err.empty());
}

TEST_CASE("help and version need nothing else", "[config]") {
  Tool t;
  CHECK(t.call({"--help"}) == 0);
  for (const char* part : {"Does things", "--count", "How many", "[3]", "small, large", "--[no-]tied", "--config",
                           "--dump-config", "Examples:"})
    CHECK(contains(t.out, part));
  CHECK(t.err.empty());
  CHECK(t.runs == 0);
  Tool v;
  CHECK(v.call({"--version"}) == 0);
  CHECK(contains(v.out, "nmt-tool"));
  CHECK(v.runs == 0);
}

TEST_CASE("the command line wins over config files, the last file over the first", "[config]") {
  Tool t;
  std::ofstream(t.folder / "one") << "count = 5\nkind = large\noutput = from-file\n";
  std::ofstream(t.folder / "two") << "count = 4\nkind = small\nverbose = true\n";
  REQUIRE(t.call({"--config", t.folder / "one", "--config", t.folder / "two", "--count", "6"}) == 0);
  CHECK(t.count == 6);
  CHECK(t.kind == "small");
  CHECK(t.verbose);
  CHECK(t.output == "from-file");  // and fills what is required

  std::ofstream(t.folder / "three") << "count = many\n";
  CHECK(t.call({"--config", t.folder / "three", "--count", "6", "--output", "o"}) == 2);
  CHECK(contains(t.err, t.folder / "three:1: --count"));
}

TEST_CASE("a dumped configuration gives the same run", "[config]") {
  Tool t;
  CHECK(t.call({"a", "b", "--output", "o", "--count", "9", "--weights", "0.1", "2", "--no-tied", "--dump-config"}) ==
        0);
  CHECK(t.runs == 0);
  std::ofstream(t.folder / "dumped") << t.out;
  Tool again;
  CHECK(again.call({"--config", t.folder / "dumped"}) == 0);
  CHECK(again.runs == 1);
  CHECK(again.count == 9);
  CHECK(again.weights == std::vector<double>{0.1, 2});
  CHECK_FALSE(again.tied);
  CHECK(again.output == "o");
  CHECK(again.input == std::vector<std::string>{"a", "b"});
}

TEST_CASE("prepare fills in between reading and checking", "[config]") {
  Tool t;
  t.app.prepare([&] {
    if (!t.app.options().find("count")->given()) t.count = 10;
    t.app.options().find("output")->set({"prepared"});
  });
  CHECK(t.call({}) == 0);
  CHECK(t.count == 10);
  CHECK(t.output == "prepared");
  Tool given;
  given.app.prepare([&] {
    if (!given.app.options().find("count")->given()) given.count = 10;
  });
  CHECK(given.call({"--output", "o", "--count", "2"}) == 0);
  CHECK(given.count == 2);
}

TEST_CASE("subcommands have options of their own", "[config]") {
  const auto call = [](std::vector<std::string> words, std::string& err, bool has_body = true) {
    App app("nmt-many", "Several tools");
    int a = 1, b = 1, seed = 1, ran = 0;
    app.options().add("seed", seed, "Of the tool itself");
    if (has_body) app.run([&] { ran = seed; });
    App& first = app.command("first", "The first");
    first.options().add("value", a, "A");
    first.run([&] { ran = 10 + a; });
    App& second = app.command("second", "The second");
    second.options().add("value", b, "B").required();
    second.run([&] { ran = 20 + b; });
    words.insert(words.begin(), "nmt-many");
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    TempFolder folder;
    Captured captured(folder);
    const int code = app.main(static_cast<int>(argv.size()), argv.data());
    captured.restore();
    err = captured.err();
    return code == 0 ? ran : -code;
  };
  std::string err;
  CHECK(call({"--seed", "2"}, err) == 2);
  CHECK(call({"--seed", "2", "first"}, err) == -2);
  CHECK(err == "nmt-many: error: --seed stands before the command first, whose own options follow it\n");
  CHECK(call({"--dump-config", "first"}, err) == -2);
  CHECK(call({"--config", "nowhere", "first", "--value", "5"}, err) == -2);
  CHECK(contains(err, "--config stands before"));
  CHECK(call({"first"}, err) == 11);
  CHECK(call({"first", "--value", "5"}, err) == 15);
  CHECK(call({"second", "--value", "6"}, err) == 26);
  CHECK(call({"first", "second"}, err) == -2);
  CHECK(call({"second", "--value", "6", "first", "--value", "5"}, err) == -2);
  CHECK(call({"first", "--values", "5"}, err) == -2);
  CHECK(err == "nmt-many: error: '--values 5' was not expected; is --value meant? (see --help)\n");
  CHECK(call({"--seeds", "first"}, err) == -2);
  CHECK(err == "nmt-many: error: '--seeds' was not expected; is --seed meant? (see --help)\n");
  CHECK(call({"second"}, err) == -2);
  CHECK(contains(err, "--value is missing"));
  CHECK(call({}, err, false) == -2);
  CHECK(call({"third"}, err) == -2);
  CHECK(err.starts_with("nmt-many: error: "));
}

TEST_CASE(
    "a thread that lacks memory, and one that cannot start, end the program with a line and leave nothing behind") {
  const bool starts = GENERATE(true, false);
  const TempFolder folder;
  Captured captured(folder);
  const pid_t child = ::fork();
  if (child == 0) {
    App app("nmt-tool", "Does things");
    app.run([&] {
      const AtomicFile file(folder / "made");
      if (!starts) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      std::thread([] { throw std::bad_alloc(); }).join();
    });
    char name[] = "nmt-tool";
    char* arguments[] = {name, nullptr};
    ::_exit(app.main(1, arguments));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  captured.restore();
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(captured.err() == (starts ? "nmt-tool: error: out of memory\n"
                                  : "nmt-tool: error: cannot start a thread: there is too little memory, or too many "
                                    "threads run already\n"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);  // what is captured
}
