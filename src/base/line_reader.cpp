#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include <boost/core/ref.hpp>
#include <boost/iostreams/device/file_descriptor.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/error.h"
#include "base/files.h"

namespace nmt {
namespace io = boost::iostreams;

namespace {

constexpr size_t kBlock = 1 << 16;
constexpr size_t kLongestLine = size_t{1} << 26;  // no text: a few bytes of a packed file may stand for gigabytes

// Bytes as they come, so that no line of a pipe is held back; read() gives 0 or less at the end.
class RawBytes {
 public:
  using char_type = char;
  using category = io::source_tag;

  void open(int descriptor) {
    file_.open(descriptor, descriptor == STDIN_FILENO ? io::never_close_handle : io::close_handle);
  }

  std::streamsize read(char* data, std::streamsize bytes) {
    if (head_.empty()) return file_.read(data, bytes);
    const size_t given = head_.copy(data, static_cast<size_t>(bytes));
    head_.erase(0, given);
    return static_cast<std::streamsize>(given);
  }

  // Looks at the first bytes; read() still gives them.
  bool begin_with(std::string_view magic) {
    char next[16];
    while (head_.size() < magic.size() && magic.starts_with(head_)) {
      const auto got = file_.read(next, static_cast<std::streamsize>(magic.size() - head_.size()));
      if (got <= 0) return false;
      head_.append(next, static_cast<size_t>(got));
    }
    return head_.starts_with(magic);
  }

  // After begin_with(magic): whether they end within it.
  bool end_within(std::string_view magic) const { return head_.size() < magic.size() && magic.starts_with(head_); }

 private:
  io::file_descriptor_source file_;
  std::string head_;
};

// The content of zstd frames, one after another. (Boost's filter ends quietly where a file is cut off.)
class ZstdBytes {
 public:
  explicit ZstdBytes(RawBytes& raw) : raw_(raw), stream_(::ZSTD_createDStream(), ::ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
  }

  std::streamsize read(char* data, std::streamsize bytes) {
    ZSTD_outBuffer out{data, static_cast<size_t>(bytes), 0};
    for (;;) {
      const size_t before = in_.pos, left = ::ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (::ZSTD_isError(left) != 0) fail("{}", ::ZSTD_getErrorName(left));
      if (in_.pos > before || out.pos > 0) open_ = left != 0;
      if (out.pos > 0) return static_cast<std::streamsize>(out.pos);
      if (in_.pos < in_.size) continue;
      packed_.resize(kBlock);
      const auto got = raw_.read(packed_.data(), static_cast<std::streamsize>(packed_.size()));
      if (got <= 0 && open_) fail("zstd frame without end");
      if (got <= 0) return 0;
      in_ = {packed_.data(), static_cast<size_t>(got), 0};
    }
  }

 private:
  RawBytes& raw_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  std::string packed_;
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
  RawBytes raw;
  io::filtering_streambuf<io::input> gzip;
  std::unique_ptr<ZstdBytes> zstd;

  std::streamsize read(char* data, std::streamsize bytes) {
    if (!started) {
      started = true;
      if (raw.begin_with(kGzip)) {
        gzip.push(io::gzip_decompressor());
        gzip.push(boost::ref(raw));
      } else if (is_zstd(raw)) {
        zstd = std::make_unique<ZstdBytes>(raw);
      } else if ((packed_by_name == ".gz" && raw.end_within(kGzip)) ||
                 (packed_by_name == ".zst" && raw.end_within(kZstd))) {
        fail("it ends within its first bytes");
      }
    }
    if (zstd) return zstd->read(data, bytes);
    return gzip.empty() ? raw.read(data, bytes) : read_gzip(data, bytes);
  }

  // What is decoded before damage is found is read first.
  std::streamsize read_gzip(char* data, std::streamsize bytes) {
    if (damage) std::rethrow_exception(damage);
    std::streamsize got = 0;
    try {
      while (got < bytes && gzip.sgetc() != std::char_traits<char>::eof())
        got += gzip.sgetn(data + got, std::clamp<std::streamsize>(gzip.in_avail(), 1, bytes - got));
    } catch (...) {
      if (got == 0) throw;
      damage = std::current_exception();
    }
    return got;
  }

  std::string packed_by_name;  // how the name ends
  std::exception_ptr damage;
  std::string buffer;
  size_t position = 0;
  bool started = false, ended = false;
};

LineReader::LineReader(std::string path) : name_(input_name(path)), source_(std::make_unique<Source>()) {
  const int descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, "cannot read {}: {}", name_, std::strerror(errno));
  source_->raw.open(descriptor);
  source_->packed_by_name = std::filesystem::path(path).extension();
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
    std::streamsize got = 0;
    std::string_view format;
    try {
      if (!s.started) format = other_format(s.raw);
      if (format.empty()) got = s.read(s.buffer.data(), kBlock);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      user_error("cannot read {} after line {}: damaged or cut off ({})", name_, line_number_, error.what());
    }
    require(format.empty(), "{} is {}: make it UTF-8, plain or compressed by gzip or zstd", name_, format);
    s.buffer.resize(got > 0 ? static_cast<size_t>(got) : 0);
    s.ended = got <= 0;
  }
}

}  // namespace nmt
