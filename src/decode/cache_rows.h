#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nmt {

// Which rows of the key/value cache belong to which hypothesis. Keys and values never move: each hypothesis has a table
// of the cache rows of its tokens, hypotheses of one past share rows, and rows that no table names are used again.
class CacheRows {
 public:
  // The next step: row r continues what row parents[r] was, or begins (-1); its table grows by a cache row of its own,
  // slot()[r].
  void advance(std::span<const int32_t> parents);

  std::span<const int32_t> slot() const { return slot_; }    // [rows]
  std::span<const int32_t> entry() const { return entry_; }  // [rows, stride], the first lengths()[r] of row r count
  std::span<const int32_t> lengths() const { return lengths_; }  // [rows]
  int64_t capacity() const { return capacity_; }                 // rows that the cache must have; never falls

 private:
  int64_t stride_ = 0, capacity_ = 0;
  std::vector<int32_t> slot_, entry_, lengths_;
};

}  // namespace nmt
