#include "base/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#define ZLIB_CONST  // what it reads it does not change
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/files.h"

namespace nmt {
namespace {

constexpr size_t kBlock = 1 << 16;
constexpr size_t kLongestLine = size_t{1} << 26;  // no text: a few bytes of a packed file may stand for gigabytes

// Bytes as they come, so that no line of a pipe is held back; read() gives 0 at the end.
class RawBytes {
 public:
  explicit RawBytes(int descriptor) : descriptor_(descriptor) {}
  ~RawBytes() {
    if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
  }
  RawBytes(const RawBytes&) = delete;
  RawBytes& operator=(const RawBytes&) = delete;

  size_t read(char* data, size_t bytes) {
    if (head_.empty()) return read_file(data, bytes);
    const size_t given = head_.copy(data, bytes);
    head_.erase(0, given);
    return given;
  }

  // Looks at the first bytes; read() still gives them.
  bool begin_with(std::string_view magic) {
    char next[16];
    while (head_.size() < magic.size() && magic.starts_with(head_)) {
      const size_t got = read_file(next, magic.size() - head_.size());
      if (got == 0) return false;
      head_.append(next, got);
    }
    return head_.starts_with(magic);
  }

  // After begin_with(magic): whether they end within it.
  bool end_within(std::string_view magic) const { return head_.size() < magic.size() && magic.starts_with(head_); }

 private:
  size_t read_file(char* data, size_t bytes) const {
    ssize_t got = 0;
    do got = ::read(descriptor_, data, bytes);
    while (got < 0 && can_go_on(descriptor_, POLLIN));
    if (got < 0) fail("{}", std::strerror(errno));
    return static_cast<size_t>(got);
  }

  const int descriptor_;
  std::string head_;
};

[[noreturn]] void fail_damaged(std::string_view how) { fail("damaged or cut off ({})", how); }

// The content of a packed file, as much at a time as its bytes give; read() gives 0 at the end. Throws Error where they
// are damaged or cut off, after what is before that.
class Unpacker {
 public:
  explicit Unpacker(RawBytes& raw) : raw_(raw) {}
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  virtual ~Unpacker() = default;
  virtual size_t read(char* data, size_t bytes) = 0;

 protected:
  std::string_view read_packed() {
    packed_.resize(kBlock);
    return {packed_.data(), raw_.read(packed_.data(), packed_.size())};
  }

 private:
  RawBytes& raw_;
  std::string packed_;
};

// Members of gzip, one after another. (Boost's filter holds back what it has until its buffer is full.)
class GzipBytes : public Unpacker {
 public:
  explicit GzipBytes(RawBytes& raw) : Unpacker(raw) {
    constexpr int kGzipAlone = 16;  // no other format of zlib's
    if (::inflateInit2(&stream_, kGzipAlone + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~GzipBytes() override { ::inflateEnd(&stream_); }

  size_t read(char* data, size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(data);
    stream_.avail_out = static_cast<uInt>(bytes);
    for (;;) {
      // Zeros after a member fill up a block of a tape or a disk.
      for (; stream_.total_in == 0 && stream_.avail_in > 0 && *stream_.next_in == 0; --stream_.avail_in)
        ++stream_.next_in;
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status == Z_STREAM_END) ::inflateReset(&stream_);
      if (stream_.avail_out < bytes) return bytes - stream_.avail_out;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        fail_damaged(stream_.msg != nullptr ? stream_.msg : "no gzip");
      if (stream_.avail_in == 0) {
        const auto packed = read_packed();
        if (packed.empty() && stream_.total_in > 0) fail_damaged("gzip member without end");
        if (packed.empty()) return 0;
        stream_.next_in = reinterpret_cast<const Bytef*>(packed.data());
        stream_.avail_in = static_cast<uInt>(packed.size());
      }
    }
  }

 private:
  z_stream stream_ = {};
};

// Frames of zstd, one after another. (Boost's filter ends quietly where a file is cut off.)
class ZstdBytes : public Unpacker {
 public:
  explicit ZstdBytes(RawBytes& raw) : Unpacker(raw), stream_(::ZSTD_createDStream(), ::ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
  }

  size_t read(char* data, size_t bytes) override {
    ZSTD_outBuffer out{data, bytes, 0};
    for (;;) {
      const size_t before = in_.pos, left = ::ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (::ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
        fail("compressed by zstd --long=28 or more, which takes that much memory: --long=27 is read");
      if (::ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (::ZSTD_isError(left) != 0) fail_damaged(::ZSTD_getErrorName(left));
      if (in_.pos > before || out.pos > 0) open_ = left != 0;
      if (out.pos > 0) return out.pos;
      if (in_.pos < in_.size) continue;
      const auto packed = read_packed();
      if (packed.empty() && open_) fail_damaged("zstd frame without end");
      if (packed.empty()) return 0;
      in_ = {packed.data(), packed.size(), 0};
    }
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool open_ = false;  // within a frame
};

constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd", kXz = {"\xfd\x37zXZ\0", 6};
constexpr std::string_view kUtf16[] = {"\xff\xfe", "\xfe\xff"};  // byte order marks

bool is_zstd(RawBytes& raw) {
  if (raw.begin_with(kZstd)) return true;
  for (char first = 0x50; first <= 0x5f; ++first)  // frames to be skipped, which pzstd begins with
    if (raw.begin_with(std::string{first, 0x2a, 0x4d, 0x18})) return true;
  return false;
}

// What a file is that is no text, nor packed as nmt unpacks it; empty for others.
std::string_view other_format(RawBytes& raw) {
  for (char level = '1'; level <= '9'; ++level)
    if (raw.begin_with(std::string("BZh") + level + "1AY&SY")) return "compressed by bzip2";
  if (raw.begin_with(kXz)) return "compressed by xz";
  if (raw.begin_with(kUtf16[0]) || raw.begin_with(kUtf16[1])) return "UTF-16";
  return "";
}

}  // namespace

struct LineReader::Source {
  Source(int descriptor, std::string extension) : raw(descriptor), packed_by_name(std::move(extension)) {}

  RawBytes raw;
  std::string packed_by_name;  // how the name ends
  std::unique_ptr<Unpacker> unpacker;
  std::string buffer;
  size_t position = 0;
  bool started = false, ended = false;

  size_t read(char* data, size_t bytes) {
    if (!started) start();
    return unpacker ? unpacker->read(data, bytes) : raw.read(data, bytes);
  }

  void start() {
    started = true;
    if (raw.begin_with(kGzip))
      unpacker = std::make_unique<GzipBytes>(raw);
    else if (is_zstd(raw))
      unpacker = std::make_unique<ZstdBytes>(raw);
    else if ((packed_by_name == ".gz" && raw.end_within(kGzip)) || (packed_by_name == ".zst" && raw.end_within(kZstd)))
      fail_damaged("it ends within its first bytes");
  }
};

LineReader::LineReader(std::string path) : name_(input_name(path)) {
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, "cannot read {}: {}", name_, std::strerror(errno));
  source_ = std::make_unique<Source>(descriptor, std::filesystem::path(path).extension());
  struct stat status = {};
  require(::fstat(descriptor, &status) != 0 || !S_ISDIR(status.st_mode), "cannot read {}: it is a folder", name_);
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  Source& s = *source_;
  line.clear();
  for (;;) {
    const size_t end = s.buffer.find('\n', s.position);
    if (end != std::string::npos) {
      line.append(s.buffer, s.position, end - s.position);
      s.position = end + 1;
      ++line_number_;
      return true;
    }
    line.append(s.buffer, s.position);
    require(line.size() <= kLongestLine, "{}:{}: a line of more than {} bytes", name_, line_number_ + 1, kLongestLine);
    s.buffer.clear();
    s.position = 0;
    if (s.ended) {
      if (line.empty()) return false;
      ++line_number_;
      return true;
    }
    s.buffer.resize(kBlock);
    size_t got = 0;
    std::string_view format;
    try {
      if (!s.started) format = other_format(s.raw);
      if (format.empty()) got = s.read(s.buffer.data(), kBlock);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      user_error("cannot read {} after line {}: {}", name_, line_number_, error.what());
    }
    require(format.empty(), "{} is {}: make it UTF-8, plain or compressed by gzip or zstd", name_, format);
    s.buffer.resize(got);
    s.ended = got == 0;
  }
}

std::vector<std::string> read_lines(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

}  // namespace nmt
