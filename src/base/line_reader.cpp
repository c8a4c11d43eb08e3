#include <cerrno>
#include <cstring>

#include <boost/iostreams/device/file_descriptor.hpp>
#include <boost/iostreams/filter/gzip.hpp>
#include <boost/iostreams/filter/zstd.hpp>
#include <boost/iostreams/filtering_streambuf.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/error.h"
#include "base/files.h"

namespace nmt {
namespace io = boost::iostreams;

namespace {

// Boost's zstd filter ends quietly where a file is cut off, so the frames are walked first (headers of blocks only).
void check_zstd(const std::string& path, int descriptor, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  require(data != MAP_FAILED, "cannot read {}: {}", path, std::strerror(errno));
  bool whole = true;
  for (size_t at = 0; whole && at < bytes;) {
    const size_t frame = ZSTD_findFrameCompressedSize(static_cast<const char*>(data) + at, bytes - at);
    whole = ZSTD_isError(frame) == 0;
    at += frame;
  }
  ::munmap(data, bytes);
  require(whole, "cannot read {}: damaged or cut off (zstd)", path);
}

}  // namespace

struct LineReader::Source {
  io::file_descriptor_source file;            // read as it comes: no line of a pipe is held back
  io::filtering_streambuf<io::input> stream;  // of a compressed file

  std::streamsize read(char* data, std::streamsize bytes) {
    return stream.empty() ? file.read(data, bytes) : io::read(stream, data, bytes);
  }

  std::string buffer;
  size_t position = 0;
  bool ended = false;
};

LineReader::LineReader(std::string path)
    : name_(path == "-" ? "standard input" : path), source_(std::make_unique<Source>()) {
  int descriptor = STDIN_FILENO;
  unsigned char magic[4] = {};
  struct stat status = {};
  if (path != "-") {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require(descriptor >= 0, "cannot read {}: {}", path, std::strerror(errno));
    if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(descriptor);
      user_error("cannot read {}: it is a folder", path);
    }
    if (::pread(descriptor, magic, sizeof magic, 0) < 0) magic[0] = 0;  // a pipe: plain text
  }
  if (magic[0] == 0x1f && magic[1] == 0x8b) source_->stream.push(io::gzip_decompressor());
  if (magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd) {
    try {
      check_zstd(path, descriptor, static_cast<size_t>(status.st_size));
    } catch (...) {
      ::close(descriptor);
      throw;
    }
    source_->stream.push(io::zstd_decompressor());
  }
  const auto ownership = path == "-" ? io::never_close_handle : io::close_handle;
  source_->file.open(descriptor, ownership);
  if (!source_->stream.empty()) source_->stream.push(source_->file);
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  constexpr size_t kBlock = 1 << 16;
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
    s.buffer.clear();
    s.position = 0;
    if (s.ended) {
      if (line.empty()) return false;
      ++line_number_;
      return true;
    }
    s.buffer.resize(kBlock);
    std::streamsize got = 0;
    try {
      got = s.read(s.buffer.data(), kBlock);
    } catch (const std::exception& error) {
      user_error("cannot read {} after line {}: damaged or cut off ({})", name_, line_number_, error.what());
    }
    s.buffer.resize(got > 0 ? static_cast<size_t>(got) : 0);
    s.ended = got <= 0;
  }
}

}  // namespace nmt
