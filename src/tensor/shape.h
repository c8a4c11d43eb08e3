#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace nmt {

// The lengths of a tensor's axes, the last one contiguous. Rank 0 is a scalar: one element.
class Shape {
 public:
  static constexpr int kMaxRank = 5;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> lengths) : Shape(lengths.begin(), lengths.size()) {}
  explicit constexpr Shape(std::span<const int64_t> lengths) : Shape(lengths.data(), lengths.size()) {}

  constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int axis) const { return lengths_[axis]; }
  constexpr int64_t& operator[](int axis) { return lengths_[axis]; }

  // The length of an axis; negative counts from the end: dim(-1) is the last.
  constexpr int64_t dim(int axis) const {
    const int i = axis < 0 ? axis + rank_ : axis;
    if (i < 0 || i >= rank_) check(false, "axis {} of a tensor of shape {}", axis, str());
    return lengths_[i];
  }

  constexpr int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= lengths_[i];
    return n;
  }

  // How many vectors of the last axis' length there are; 0 where that is 0.
  constexpr int64_t rows() const { return dim(-1) == 0 ? 0 : elements() / dim(-1); }

  constexpr const int64_t* begin() const { return lengths_.data(); }
  constexpr const int64_t* end() const { return lengths_.data() + rank_; }

  constexpr bool operator==(const Shape&) const = default;  // unused lengths are zero

  std::string str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

 private:
  constexpr Shape(const int64_t* lengths, size_t rank) : rank_(static_cast<int32_t>(rank)) {
    if (rank > kMaxRank) check(false, "a tensor has at most {} axes, not {}", kMaxRank, rank);
    for (int i = 0; i < rank_; ++i) {
      if (lengths[i] < 0) check(false, "axis {} of a tensor has the negative length {}", i, lengths[i]);
      lengths_[i] = lengths[i];
    }
  }

  std::array<int64_t, kMaxRank> lengths_{};
  int32_t rank_ = 0;
};

static_assert(std::is_trivially_copyable_v<Shape>);

}  // namespace nmt

// Checks take shapes as they are: a message that nobody reads is never made.
template <>
struct fmt::formatter<nmt::Shape> : fmt::formatter<std::string_view> {
  auto format(const nmt::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(shape.str(), context);
  }
};
