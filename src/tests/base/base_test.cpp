#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/line_reader.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "base/worker.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/file_size_limit.h"
#include "tests/temp_folder.h"

using namespace nmt;
using nmt::testing::complaint_of;
using nmt::testing::FileSizeLimit;

namespace {

// Packs a file as FILE.TOOL; false, with a warning, where there is no such program.
bool pack(const std::string& tool, const std::string& file) {
  if (std::system(fmt::format("{0} -q -c {1} > {1}.{0} 2> /dev/null", tool, file).c_str()) == 0) return true;
  WARN("SKIPPED: the program " << tool << " is absent");
  return false;
}

// For as long as it lives root, to whom nothing is protected, is nobody.
class AsNobody {
 public:
  AsNobody() { static_cast<void>(::geteuid() == 0 && ::seteuid(65534) == 0); }
  ~AsNobody() { static_cast<void>(::geteuid() == 65534 && ::seteuid(0) == 0); }
};

}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers of its authors") {
  using P = Philox4x32;
  CHECK(P::generate({0, 0, 0, 0}, {0, 0}) == P::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(P::generate({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == P::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(P::generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        P::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a shuffle is a permutation, equal for equal seeds") {
  std::vector<int> a(1000), b;
  std::iota(a.begin(), a.end(), 0);
  const auto sorted = a;
  b = a;
  Random(7).shuffle(a);
  Random(7).shuffle(b);
  CHECK(a == b);
  CHECK(a != sorted);
  std::sort(a.begin(), a.end());
  CHECK(a == sorted);
}

TEST_CASE("parallel_for visits every index once and rethrows") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t n : {0, 1, 7, 1000, 100000}) {
      std::vector<int> visits(static_cast<size_t>(n));
      std::atomic<bool> in_chunks = true;  // of n and 13 alone, whatever the threads
      pool.parallel_for(n, 13, [&](int64_t begin, int64_t end) {
        if (begin % 13 != 0 || end != std::min(begin + 13, n)) in_chunks = false;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      CHECK(std::count(visits.begin(), visits.end(), 1) == n);
      CHECK(in_chunks);
    }
    // Of those that fail the first one, whichever does so first; all before it are done.
    std::vector<int> visits(100);
    const auto fail_from_49 = [&](int64_t i, int64_t) {
      if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++visits[static_cast<size_t>(i)];
      if (i >= 49) fail("{}", i);
    };
    CHECK_THROWS_WITH(pool.parallel_for(100, 1, fail_from_49), "49");
    CHECK(std::count(visits.begin(), visits.begin() + 49, 1) == 49);
  }
}

TEST_CASE("each thread begins with the same part of every loop") {
  ThreadPool pool(3);
  std::map<std::thread::id, int64_t> before;
  for (int pass = 0; pass < 3; ++pass) {
    std::atomic<int> begun = 0;
    std::mutex mutex;
    std::map<std::thread::id, int64_t> firsts;
    pool.parallel_for(10, 1, [&](int64_t i, int64_t) {
      {
        const std::lock_guard lock(mutex);
        if (!firsts.try_emplace(std::this_thread::get_id(), i).second) return;
      }
      for (++begun; begun < 3;) std::this_thread::yield();  // no thread takes another's part before all have begun
    });
    CHECK(firsts[std::this_thread::get_id()] == 0);
    std::set<int64_t> chunks;
    for (const auto& [thread, chunk] : firsts) chunks.insert(chunk);
    CHECK(chunks == std::set<int64_t>{0, 4, 7});
    if (pass > 0) CHECK(firsts == before);
    before = firsts;
  }
}

TEST_CASE("a worker does one thing after another, and nothing after a failure") {
  std::vector<int> done;
  {
    Worker worker;
    for (int i = 0; i < 100; ++i) worker.begin([&done, i] { done.push_back(i); });
    worker.wait();
    CHECK(done.size() == 100);
    CHECK(std::ranges::is_sorted(done));
    worker.begin([&] { done.push_back(100); });
  }
  CHECK(done.size() == 101);  // which it waited for
  Worker worker;
  worker.begin([] { throw std::runtime_error("broken"); });
  CHECK_THROWS_WITH(worker.wait(), "broken");
  CHECK(worker.failed());
  CHECK_THROWS_WITH(worker.begin([&] { done.clear(); }), "broken");
  CHECK_THROWS_WITH(worker.wait(), "broken");
  CHECK(done.size() == 101);
}

TEST_CASE("a file lock is held by one, and leaves nothing") {
  const TempFolder folder;
  const std::string path = folder / "m.lock";
  {
    const FileLock held(path, "taken");
    CHECK(complaint_of([&] { FileLock(path, "taken"); }) == "taken");
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
  std::ofstream{path};  // of a process that was killed
  { const FileLock held(path, "taken"); }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(complaint_of([&] { FileLock(folder / "no/m.lock", "taken"); }).ends_with("No such file or directory"));
}

TEST_CASE("an atomic file appears whole or not at all") {
  const TempFolder folder;
  const std::string path = folder / "file";
  {
    AtomicFile file(path);
    file.write("lost");
  }
  CHECK(!std::filesystem::exists(path));
  for (const std::string text : {"first", "second, longer"}) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
    CHECK(read_file(path) == text);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_AS(AtomicFile(folder / "no/such/folder"), UserError);
  CHECK_THROWS_AS(read_file(path, 13), UserError);
  CHECK(read_file(path, 14) == "second, longer");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);  // that nobody writes to
  CHECK(complaint_of([&] { read_file(folder / "pipe"); }) ==
        fmt::format("cannot read {}: not a regular file", folder / "pipe"));
}

TEST_CASE("a file that is replaced keeps who may read it") {
  namespace fs = std::filesystem;
  const TempFolder folder;
  const std::string path = folder / "secret";
  for (const auto mode : {fs::perms(0600), fs::perms(0640), fs::perms(0644), fs::perms(0666)}) {
    std::ofstream(path) << "old";
    fs::permissions(path, mode);
    AtomicFile file(path);
    file.write("new");
    file.commit();
    CHECK(read_file(path) == "new");
    CHECK(fs::status(path).permissions() == mode);
  }
}

TEST_CASE("a file that is write-protected stays") {
  namespace fs = std::filesystem;
  const TempFolder folder;
  const std::string path = folder / "protected";
  std::ofstream(path) << "old";
  fs::permissions(path, fs::perms(0444));
  fs::permissions(folder.path(), fs::perms(0777));
  const AsNobody nobody;
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0 ||
      ::faccessat(AT_FDCWD, folder.path().c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    WARN("SKIPPED: no user who may write to a folder, but not to a file");
    return;
  }
  errno = 0;
  CHECK(complaint_of([&] { AtomicFile{path}; }) == "cannot write " + path + ": Permission denied");
  CHECK(read_file(path) == "old");
  AtomicFile(folder / "another").commit();
}

TEST_CASE("what lies where a temporary file comes is not written to") {
  const TempFolder folder;
  std::ofstream(folder / "other") << "kept";
  const std::string temporary = folder / fmt::format("file.tmp.{}", getpid());
  std::filesystem::create_symlink(folder / "other", temporary);
  AtomicFile file(folder / "file");
  file.write("new");
  file.commit();
  CHECK(read_file(folder / "other") == "kept");
  CHECK(read_file(folder / "file") == "new");
  CHECK(!std::filesystem::is_symlink(folder / "file"));
}

TEST_CASE("two programs of one number, as containers have, write to temporary files of their own") {
  const TempFolder folder;
  const std::string path = folder / "file";
  std::ofstream(fmt::format("{}.tmp.{}", path, ::getpid())) << "the other's";
  AtomicFile file(path), second(path);
  file.write("new");
  second.write("newer");
  file.commit();
  CHECK(read_file(path) == "new");
  second.commit();
  CHECK(read_file(path) == "newer");
  CHECK(read_file(fmt::format("{}.tmp.{}", path, ::getpid())) == "the other's");
}

TEST_CASE("what was sent to a file whose unfinished part is kept stays, and replaces no other part") {
  const TempFolder folder;
  const std::string path = folder / "lines", part = fmt::format("{}.part.{}", path, ::getpid());
  const auto begin = [&](const char* sent, bool commits) {
    AtomicFile file(path, AtomicFile::Unfinished::kKept);
    file.write(sent);
    file.send();
    file.write("not sent\n");
    if (commits) file.commit();
  };
  begin("", false);
  CHECK(!std::filesystem::exists(part));
  {
    const AtomicFile file(path, AtomicFile::Unfinished::kKept);
    CHECK(std::filesystem::exists(part));
    leave_no_temporaries();  // as at a signal
    CHECK(!std::filesystem::exists(part));
  }
  begin("first\n", false);
  begin("second\n", false);
  CHECK(read_file(part) == "first\n");
  CHECK(read_file(part + ".1") == "second\n");
  CHECK(!std::filesystem::exists(path));
  begin("whole\n", true);
  CHECK(read_file(path) == "whole\nnot sent\n");
  CHECK(!std::filesystem::exists(part + ".2"));
  {
    const FileSizeLimit limit(100);  // in the middle of a line
    AtomicFile file(path, AtomicFile::Unfinished::kKept);
    const auto send = [&](const std::string& line) {
      file.write(line);
      file.send();
    };
    send("fits\n");
    CHECK_THROWS_AS(send(std::string(200, 'n') + "\n"), Error);
  }
  CHECK(read_file(part + ".2") == "fits\n");
  {
    AtomicFile file(path + "2", AtomicFile::Unfinished::kKept);
    file.write("line\n");
    std::filesystem::create_directory(path + "2");  // which renaming does not replace
    CHECK_THROWS_AS(file.commit(), Error);
  }
  CHECK(read_file(folder / fmt::format("lines2.part.{}", ::getpid())) == "line\n");
}

// As the address sanitizer sees it, of parts: it looks at names for stat(), not for unlink().
TEST_CASE("a handler reads no name of a file that another thread has done with") {
  const TempFolder folder;
  const std::string path = folder / std::string(50, 'n');  // too long for the inside of a string
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (int i = 0; i < 3000; ++i) const AtomicFile file(path, AtomicFile::Unfinished::kKept);
    done = true;
  });
  while (!done) leave_no_temporaries();
  CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
}

TEST_CASE("a device is written to and not replaced") {
  for (const int round : {1, 2}) {
    AtomicFile file("/dev/null");
    file.write(std::string(round, 'x'));
    file.commit();
    CHECK(std::filesystem::is_character_file("/dev/null"));
  }
  CHECK(!same_file("/dev/null", "/dev/null"));
  CHECK(same_file("not/there", "./not/there"));
  CHECK(same_file("-", "/dev/stdout"));
  CHECK(!same_file("-", "/dev/null"));
  {
    const TempFolder folder;
    std::ofstream(folder / "log") << "a line";
    const int output = ::dup(STDOUT_FILENO), log = ::open((folder / "log").c_str(), O_WRONLY | O_APPEND);
    ::dup2(log, STDOUT_FILENO);
    const bool same = same_file("-", folder / "log"), other = same_file("-", folder / "other");
    ::dup2(output, STDOUT_FILENO);
    ::close(output);
    ::close(log);
    CHECK(same);
    CHECK(!other);
  }
  const TempFolder folder;
  CHECK_THROWS_AS(AtomicFile(folder.path()), UserError);
}

TEST_CASE("a link stays, and the file that it leads to is replaced") {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    AtomicFile file(folder / name);
    file.write(text);
    file.commit();
  };
  std::filesystem::create_directories(folder / "there/deep");
  std::filesystem::create_symlink("there/middle", folder / "link");
  std::filesystem::create_symlink(folder / "there/deep/file", folder / "there/middle");
  for (const char* text : {"made", "replaced"}) {  // by a link that leads to nothing yet, then to a file
    write("link", text);
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(std::filesystem::is_symlink(folder / "there/middle"));
    CHECK(!std::filesystem::is_symlink(folder / "there/deep/file"));
    CHECK(read_file(folder / "there/deep/file") == text);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "there/deep"), {}) == 1);
  std::filesystem::create_symlink("round", folder / "round");
  CHECK_THROWS_AS(write("round", "never"), UserError);
  std::filesystem::create_symlink("/dev/null", folder / "null");
  write("null", "nothing");
  CHECK(std::filesystem::is_symlink(folder / "null"));
}

TEST_CASE("a full disk is reported and leaves the old file") {
  const TempFolder folder;
  if (std::filesystem::exists("/dev/full")) {
    AtomicFile full("/dev/full");
    full.write("new");
    CHECK_THROWS_AS(full.commit(), Error);
  }
  std::ofstream(folder / "x") << "old";
  {
    const FileSizeLimit limit(1 << 20);
    AtomicFile file(folder / "x");
    const auto write = [&] {
      file.write(std::string(3 << 20, 'n'));
      file.commit();
    };
    CHECK_THROWS_AS(write(), Error);
  }
  CHECK(read_file(folder / "x") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("lines are split at newlines only") {
  const TempFolder folder;
  const std::string text =
      "a\n\nb\xC2\x85"
      "c\r\nlast";
  std::ofstream(folder / "plain") << text;
  CHECK(read_lines(folder / "plain") == std::vector<std::string>{"a", "",
                                                                 "b\xC2\x85"
                                                                 "c\r",
                                                                 "last"});
  for (const std::string tool : {"gzip", "zstd"}) {
    if (!pack(tool, folder / "plain")) continue;
    CHECK(read_lines(folder / "plain." + tool).size() == 4);
    auto bytes = read_file(folder / "plain." + tool);
    std::ofstream(folder / "cut") << bytes.substr(0, bytes.size() - 5);
    CHECK_THROWS_AS(read_lines(folder / "cut"), UserError);
    std::ofstream(folder / "twice") << bytes << bytes;
    CHECK(read_lines(folder / "twice").size() == 7);  // "last" and "a" are one line
    std::ofstream(folder / "more") << bytes << "\x28more";
    CHECK_THROWS_AS(read_lines(folder / "more"), UserError);
    if (tool == "gzip") {
      std::ofstream(folder / "filled") << bytes << std::string(70000, '\0') << bytes << '\0';
      CHECK(read_lines(folder / "filled") == read_lines(folder / "twice"));
    }
    if (tool == "zstd") {
      std::ofstream(folder / "skipped") << std::string("\x5f\x2a\x4d\x18\x02\0\0\0no", 10) << bytes;
      CHECK(read_lines(folder / "skipped") == read_lines(folder / "plain"));
    }
    // Through a pipe, which nobody can look into before.
    const std::string pipe = folder / "pipe." + tool;
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    for (const std::string& name : {"plain." + tool, std::string("cut"), std::string("plain")}) {
      REQUIRE(std::system(fmt::format("cat {} > {} &", folder / name, pipe).c_str()) == 0);
      if (name == "cut")
        CHECK_THROWS_AS(read_lines(pipe), UserError);
      else
        CHECK(read_lines(pipe) == read_lines(folder / "plain"));
    }
  }
  for (const char* start : {"(", "\x1f", "\x28\xb5\x2f"}) {  // no more than the beginning of a format's mark
    std::ofstream(folder / "start") << start;
    CHECK(read_lines(folder / "start") == std::vector<std::string>{start});
  }
  std::ofstream(folder / "endless") << "short\n" << std::string((size_t{1} << 26) + 1, 'x');
  CHECK(complaint_of([&] { read_lines(folder / "endless"); }) ==
        folder / "endless:2: a line of more than 67108864 bytes");
  CHECK_THROWS_AS(read_lines(folder / "absent"), UserError);
  CHECK_THROWS_AS(read_lines(folder.path()), UserError);
}

TEST_CASE("text in other formats is named, not taken for lines") {
  const TempFolder folder;
  const auto complaint = [&](const std::string& bytes) {
    std::ofstream(folder / "x") << bytes;
    return complaint_of([&] { read_lines(folder / "x"); });
  };
  const std::string advice = ": make it UTF-8, plain or compressed by gzip or zstd";
  CHECK(complaint("BZh91AY&SYxyz\n") == folder / "x is compressed by bzip2" + advice);
  CHECK(complaint("BZh11AY&SY") == folder / "x is compressed by bzip2" + advice);
  CHECK(complaint(std::string("\xFD"
                              "7zXZ\0xyz",
                              9)) == folder / "x is compressed by xz" + advice);
  CHECK(complaint(std::string("\xFF\xFE"
                              "a\0\n\0",
                              6)) == folder / "x is UTF-16" + advice);
  CHECK(complaint(std::string("\xFE\xFF\0a\0\n", 6)) == folder / "x is UTF-16" + advice);
  for (const std::string text : {"BZhong", "BZh91AY&S",
                                 "\xFD"
                                 "7zXZ",
                                 "\xFF", "\xFE text"}) {
    std::ofstream(folder / "x") << text;
    CHECK(read_lines(folder / "x") == std::vector{text});
  }
}

TEST_CASE("of packed text that is cut off, what is whole is read first") {
  const TempFolder folder;
  {
    std::ofstream lines(folder / "lines");
    for (int i = 0; i < 3000; ++i) lines << "line " << i << "\n";
  }
  for (const std::string tool : {"gzip", "zstd"}) {
    if (!pack(tool, folder / "lines")) continue;
    const auto bytes = read_file(folder / "lines." + tool);
    std::ofstream(folder / "cut") << bytes.substr(0, bytes.size() - 3);
    LineReader reader(folder / "cut");
    int count = 0;
    std::string line;
    const auto read_on = [&] {
      while (reader.next(line)) CHECK(line == fmt::format("line {}", count++));
    };
    CHECK_THROWS_AS(read_on(), UserError);
    CHECK(count > 2950);
    CHECK_THROWS_AS(reader.next(line), UserError);
  }
}

TEST_CASE("lines of packed text are there as soon as a pipe has given them") {
  const TempFolder folder;
  std::ofstream(folder / "lines") << "first\nsecond\n";
  for (const std::string tool : {"gzip", "zstd"}) {
    if (!pack(tool, folder / "lines")) continue;
    const auto bytes = read_file(folder / "lines." + tool);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == std::ssize(bytes));
    LineReader reader(fmt::format("/dev/fd/{}", ends[0]));
    auto both = std::async(std::launch::async, [&] {
      std::string line;
      return reader.next(line) && line == "first" && reader.next(line) && line == "second";
    });
    CHECK(both.wait_for(std::chrono::seconds(20)) == std::future_status::ready);  // before the pipe is closed
    ::close(ends[1]);
    CHECK(both.get());
    ::close(ends[0]);
  }
}

TEST_CASE("a pipe that does not wait is waited for, by who writes and who reads") {
  constexpr int kLines = 100000;  // more than a pipe holds
  int ends[2];
  REQUIRE(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
  const int input = ::dup(STDIN_FILENO);
  REQUIRE(::dup2(ends[0], STDIN_FILENO) >= 0);
  auto count = std::async(std::launch::async, [] {
    LineReader reader("-");
    std::string line;
    int lines = 0;
    while (reader.next(line)) lines += line == "a line";
    return lines;
  });
  {
    AtomicFile file(fmt::format("/dev/fd/{}", ends[1]));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // there is nothing to read
    for (int i = 0; i < kLines; ++i) file.write("a line\n");
    CHECK_NOTHROW(file.commit());
  }
  ::close(ends[1]);
  CHECK(count.get() == kLines);
  ::close(STDIN_FILENO);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  if (input >= 0) ::close(input);
  ::close(ends[0]);
}

TEST_CASE("malformed UTF-8 is found and repaired") {
  CHECK(is_valid_utf8("aé€\U0001F600"));
  for (const char* bad : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "a\xE2\x82"})
    CHECK(!is_valid_utf8(bad));
  CHECK(repair_utf8("a\xE2\x82z") == "a\xEF\xBF\xBDz");
  CHECK(repair_utf8("\xE2\x82\xAC") == "\xE2\x82\xAC");
  CHECK(to_utf8(to_utf32("aé€\U0001F600")) == "aé€\U0001F600");
}

TEST_CASE("what a message shows of unknown text is one short line") {
  CHECK(printable("d\u00e9j\u00e0 vu") == "d\u00e9j\u00e0 vu");
  CHECK(printable("a\x1b[2J\n\x7f") == "a\\x1b[2J\\x0a\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m\xc2\xa0") == "\\x9b31m\xc2\xa0");
  CHECK(printable("\xff") == "\uFFFD");
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abcdef...");
  CHECK(printable("d\u00e9j\u00e0 vu", 5) == "d\u00e9j...");
}

TEST_CASE("hash64 tells lengths, seeds and orders apart") {
  CHECK(hash64("") != hash64(std::string_view("\0", 1)));
  CHECK(hash64("ab") != hash64("ba"));
  CHECK(hash64("ab", 1) != hash64("ab", 2));
  // Stored in checkpoints and shortlists.
  CHECK(hash64("stored values stay valid") == 0xa5bf07204ec21e04u);
  CHECK(hash64("odd", 3) == 0xa793fc55de54fc8au);
}
