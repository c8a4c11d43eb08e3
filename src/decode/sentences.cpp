#include "decode/sentences.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace nmt {

std::optional<size_t> SourceQueue::take(int64_t longest) {
  const bool none = closed_ || next_ >= sources_.size();
  if (none || static_cast<int64_t>(sources_[next_].size()) > longest) return std::nullopt;
  return std::exchange(next_, next_ + step_);
}

Sentences::Sentences(SourceQueue& queue, const SearchOptions& options, const SearchLimits& limits,
                     const ModelConfig& config, int64_t longest, const Shortlist* shortlist)
    : queue_(queue), options_(options), limits_(limits), longest_(longest) {
  if (shortlist != nullptr) allowed.emplace(*shortlist, config.target_vocabulary);
}

int64_t Sentences::limit(int32_t sentence) const {
  const int64_t tokens = std::ssize(queue_[static_cast<size_t>(sentence)]) - 1;
  const int64_t given = options_.trees == nullptr ? tokens : std::max(tokens, words(sentence));
  const int64_t limit = std::min(longest_, given + options_.max_extra);
  check(limit >= 1, "a search of {} steps", limit);
  return limit;
}

uint64_t Sentences::key(int32_t sentence) const {
  return hash64(std::as_bytes(std::span(queue_[static_cast<size_t>(sentence)])));
}

Sentences::Begun Sentences::begin() {
  Begun begun;
  std::vector<int32_t> ids, begins = {0};
  const bool room = sentences_ <= limits_.sentences - limits_.sentences / 4 && tokens_ <= limits_.tokens * 3 / 4;
  while (room && (sentences_ == 0 || sentences_ < limits_.sentences)) {
    const auto next = queue_.take(sentences_ == 0 ? INT64_MAX : limits_.tokens - tokens_);
    if (!next) break;
    const auto& source = queue_[*next];
    const auto length = static_cast<int64_t>(source.size());
    check(!source.empty(), "a source without </s>");
    ids.insert(ids.end(), source.begin(), source.end());
    begins.push_back(static_cast<int32_t>(ids.size()));
    begun.rows.push_back(places_.take(static_cast<int32_t>(*next), static_cast<int32_t>(length)));
    if (allowed) allowed->begin(*next, source);
    ++sentences_;
    tokens_ += length;
  }
  if (allowed && !begun.rows.empty()) allowed->update();
  begun.source = PackedText(ids, begins);
  return begun;
}

void Sentences::end(int32_t sentence) {
  places_.free(sentence);
  if (allowed) allowed->end(static_cast<size_t>(sentence));
  --sentences_;
  tokens_ -= std::ssize(queue_[static_cast<size_t>(sentence)]);
}

std::vector<int32_t> Sentences::under_way() const {
  std::vector<int32_t> all;
  for (const auto& place : places_.places())
    if (place.sentence >= 0) all.push_back(place.sentence);
  return all;
}

void Sentences::lay_out(std::span<const int32_t> rows, size_t places, int64_t all_rows) {
  masks.clear();
  row_begin.assign(1, 0);
  source_begin.assign(1, 0);
  size_t next = 0;
  for (const auto& place : places_.places()) {
    const int32_t count = place.sentence < 0 ? 0 : rows[next++];
    if (allowed && count > 0) {
      const auto mask = allowed->mask(static_cast<size_t>(place.sentence));
      for (int32_t r = 0; r < count; ++r) masks.insert(masks.end(), mask.begin(), mask.end());
    }
    row_begin.push_back(row_begin.back() + count);
    source_begin.push_back(place.begin + place.length);
  }
  row_begin.resize(std::max(row_begin.size(), places + 1), row_begin.back());
  source_begin.resize(row_begin.size(), source_begin.back());
  row_begin.back() = std::max(row_begin.back(), static_cast<int32_t>(all_rows));
  if (allowed) masks.resize(static_cast<size_t>(row_begin.back() * allowed->mask_bytes()));
  weight_begin = weight_begins(row_begin, source_begin);
}

}  // namespace nmt
