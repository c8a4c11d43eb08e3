#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/batch.h"

namespace nmt {

// The token ids of sentence pairs, 1 to 3 bytes a token (LEB128: frequent pieces have small ids), and 12 bytes of index
// a pair. The ids lie in memory, or in a temporary file without a name, of which nothing is left however the process
// ends. Filled once, then read by any number of threads.
class SentenceStore {
 public:
  static constexpr int64_t kMaxTokens = UINT16_MAX - 1;  // of a sentence

  // Keeps up to memory_bytes in memory, index included; what is larger goes to a temporary file in `folder` (empty:
  // the system's folder for such files).
  SentenceStore(int64_t memory_bytes, std::string folder);
  ~SentenceStore();
  SentenceStore(const SentenceStore&) = delete;
  SentenceStore& operator=(const SentenceStore&) = delete;

  // `record` is what encode() made. Throws UserError where the folder cannot be used, Error where the disk is full.
  void append(std::span<const uint8_t> record, PairLength length);
  void finish();  // after the last append, before the first fetch

  int64_t size() const { return static_cast<int64_t>(index_.size()); }
  PairLength length(int64_t pair) const;  // tokens of its two sides
  bool in_memory() const { return descriptor_ < 0; }
  int64_t memory_bytes() const;  // taken by index and records

  // Where each of these pairs' records starts: in memory, or in `buffer`, which then takes the records from the file,
  // in the file's order and with as few requests as the gaps between them allow. It must outlive the pointers.
  std::vector<const uint8_t*> fetch(std::span<const int64_t> pairs, std::vector<uint8_t>& buffer) const;

  static void encode(std::span<const int32_t> ids, std::vector<uint8_t>& record);  // appends
  // Appends n ids, returns where the next ones start.
  static const uint8_t* decode(const uint8_t* record, int32_t n, std::vector<int32_t>& ids);

 private:
  struct Entry {
    uint32_t offset_low;
    uint16_t offset_high, source, target;
    int64_t offset() const { return static_cast<int64_t>(offset_high) << 32 | offset_low; }
  };
  static_assert(sizeof(Entry) == 12);

  void spill();
  void write_block(int64_t block, int64_t bytes) const;
  void read_file(int64_t offset, std::span<uint8_t> bytes) const;

  const int64_t memory_limit_;
  std::string folder_;
  std::deque<Entry> index_;  // a deque: growing never holds two copies
  // Records lie in blocks, none across a border. In memory: all of them; with a file: the last, until it is full.
  std::deque<std::unique_ptr<uint8_t[]>> blocks_;
  int64_t first_block_ = 0;  // number of blocks_.front()
  int64_t end_ = 0;          // offset behind the last record
  int descriptor_ = -1;
};

}  // namespace nmt
