#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nmt {

// Which rows of the encoder's output belong to which sentence: rows stand sentence by sentence, and those of a finished
// sentence are given to the next ones that fit. Nothing moves.
class SourcePlaces {
 public:
  struct Place {
    int32_t begin, length;
    int32_t sentence;  // -1: free
  };

  // Gives a sentence `length` rows, the first free ones that are enough, or new ones at the end; returns the first.
  int32_t take(int32_t sentence, int32_t length);
  void free(int32_t sentence);

  std::span<const Place> places() const { return places_; }  // one after another, without gaps
  int64_t rows() const { return places_.empty() ? 0 : places_.back().begin + places_.back().length; }

 private:
  std::vector<Place> places_;
};

}  // namespace nmt
