#include "text/sentence_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

namespace nmt {
namespace {

constexpr int64_t kBlock = 4 << 20;
constexpr int64_t kGap = 4096;   // records nearer than a page are read in one request, of a block at most
constexpr size_t kAhead = 64;    // requests that the disk is told of in advance
constexpr int kBytesPerId = 5;   // at most
constexpr int kOffsetBits = 48;  // 256 TiB

int open_unnamed_file(const std::string& folder) {
  const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
  std::string name = folder + "/nmt-corpus-XXXXXX";  // not every file system has files without a name
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  require(descriptor >= 0, "cannot create a temporary file in {}: {}; name another folder with --tempdir", folder,
          std::strerror(errno));
  ::unlink(name.c_str());
  return descriptor;
}

}  // namespace

SentenceStore::SentenceStore(int64_t memory_bytes, std::string folder)
    : memory_limit_(memory_bytes), folder_(std::move(folder)) {
  if (folder_.empty()) {
    const char* set = std::getenv("TMPDIR");
    folder_ = set == nullptr || *set == 0 ? "/tmp" : set;
  }
}

SentenceStore::~SentenceStore() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

PairLength SentenceStore::length(int64_t pair) const {
  const Entry& entry = index_[static_cast<size_t>(pair)];
  return {entry.source, entry.target};
}

int64_t SentenceStore::memory_bytes() const {
  return static_cast<int64_t>(blocks_.size()) * kBlock + size() * static_cast<int64_t>(sizeof(Entry));
}

void SentenceStore::append(std::span<const uint8_t> record, PairLength length) {
  static_assert(2 * kMaxTokens * kBytesPerId < kBlock);
  check(length.source <= kMaxTokens && length.target <= kMaxTokens, "a sentence of {} and {} tokens is too long",
        length.source, length.target);
  const auto bytes = static_cast<int64_t>(record.size());
  const int64_t room_end = (first_block_ + std::ssize(blocks_)) * kBlock;
  if (blocks_.empty() || end_ + bytes > room_end) {
    if (in_memory() && !blocks_.empty() && memory_bytes() + kBlock > memory_limit_) spill();
    if (!in_memory()) {
      write_block(first_block_++, kBlock);
      blocks_.clear();
    }
    blocks_.push_back(std::make_unique<uint8_t[]>(kBlock));
    end_ = room_end;
  }
  check(end_ >> kOffsetBits == 0, "the corpus is larger than 256 TiB");
  std::ranges::copy(record, blocks_.back().get() + end_ % kBlock);
  index_.push_back({static_cast<uint32_t>(end_), static_cast<uint16_t>(end_ >> 32),
                    static_cast<uint16_t>(length.source), static_cast<uint16_t>(length.target)});
  end_ += bytes;
}

// From here on only the block that is being filled stays in memory.
void SentenceStore::spill() {
  descriptor_ = open_unnamed_file(folder_);
  for (; blocks_.size() > 1; blocks_.pop_front()) write_block(first_block_++, kBlock);
}

void SentenceStore::finish() {
  if (in_memory() && memory_bytes() > memory_limit_ && !blocks_.empty()) spill();
  if (in_memory()) return;
  if (!blocks_.empty()) write_block(first_block_, end_ - first_block_ * kBlock);
  blocks_.clear();
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
}

void SentenceStore::write_block(int64_t block, int64_t bytes) const {
  const uint8_t* data = blocks_.front().get();
  for (int64_t done = 0; done < bytes;) {
    const ssize_t written =
        ::pwrite(descriptor_, data + done, static_cast<size_t>(bytes - done), block * kBlock + done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      fail("cannot write the temporary file in {}: {}; make room there or name another folder with --tempdir", folder_,
           std::strerror(errno));
    done += written;
  }
}

std::vector<const uint8_t*> SentenceStore::fetch(std::span<const int64_t> pairs, std::vector<uint8_t>& buffer) const {
  std::vector<const uint8_t*> records(pairs.size());
  const auto offset = [&](int64_t pair) { return index_[static_cast<size_t>(pair)].offset(); };
  if (in_memory()) {
    std::ranges::transform(pairs, records.begin(), [&](int64_t pair) {
      return blocks_[static_cast<size_t>(offset(pair) / kBlock)].get() + offset(pair) % kBlock;
    });
    return records;
  }

  struct Request {
    int64_t begin, end;  // in the file
    size_t records;      // of `order`, from the start to the last that it covers
  };
  const auto record_end = [&](int64_t pair) { return pair + 1 < size() ? offset(pair + 1) : end_; };
  std::vector<size_t> order(pairs.size());  // as in the file
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return pairs[i]; });
  std::vector<Request> requests;
  size_t bytes = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const int64_t begin = offset(pairs[order[k]]), end = record_end(pairs[order[k]]);
    if (requests.empty() || begin - requests.back().end > kGap || end - requests.back().begin > kBlock)
      requests.push_back({begin, end, 0});
    requests.back().end = end;
    requests.back().records = k + 1;
    bytes += static_cast<size_t>(end - begin);
  }

  buffer.resize(bytes);
  std::vector<uint8_t> read;
  uint8_t* to = buffer.data();
  for (size_t i = 0, told = 0, k = 0; i < requests.size(); ++i) {
    for (; told < std::min(i + kAhead, requests.size()); ++told)
      ::posix_fadvise(descriptor_, requests[told].begin, requests[told].end - requests[told].begin,
                      POSIX_FADV_WILLNEED);
    const Request& request = requests[i];
    read.resize(static_cast<size_t>(request.end - request.begin));
    read_file(request.begin, read);
    for (; k < request.records; ++k) {
      const int64_t pair = pairs[order[k]];
      records[order[k]] = to;
      to = std::copy_n(read.data() + (offset(pair) - request.begin), record_end(pair) - offset(pair), to);
    }
  }
  return records;
}

void SentenceStore::read_file(int64_t offset, std::span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("cannot read the temporary file in {}: {}", folder_, got < 0 ? std::strerror(errno) : "cut off");
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

void SentenceStore::encode(std::span<const int32_t> ids, std::vector<uint8_t>& record) {
  for (const int32_t id : ids) {
    auto rest = static_cast<uint32_t>(id);
    for (; rest >= 0x80; rest >>= 7) record.push_back(static_cast<uint8_t>(rest | 0x80));
    record.push_back(static_cast<uint8_t>(rest));
  }
}

const uint8_t* SentenceStore::decode(const uint8_t* record, int32_t n, std::vector<int32_t>& ids) {
  for (; n > 0; --n) {
    uint32_t id = *record & 0x7F;
    for (int shift = 7; *record++ & 0x80; shift += 7) id |= static_cast<uint32_t>(*record & 0x7F) << shift;
    ids.push_back(static_cast<int32_t>(id));
  }
  return record;
}

}  // namespace nmt
