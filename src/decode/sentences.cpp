#include "decode/sentences.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace nmt {
namespace {

constexpr int64_t kGrain = 64;  // places of sources whose beams go on in one task

}  // namespace

std::optional<size_t> SourceQueue::take(int64_t longest) {
  const bool none = closed_ || next_ >= sources_.size();
  if (none || static_cast<int64_t>(sources_[next_].size()) > longest) return std::nullopt;
  return std::exchange(next_, next_ + step_);
}

Sentences::Sentences(SourceQueue& queue, const SearchOptions& options, const SearchLimits& limits,
                     const ModelConfig& config, int64_t longest, const Shortlist* shortlist)
    : queue_(queue),
      options_(options),
      limits_(limits),
      eos_(config.eos),
      longest_(longest),
      beams_(queue.size()),
      first_row_(queue.size(), -1) {
  if (shortlist != nullptr) allowed.emplace(*shortlist, config.target_vocabulary);
}

int64_t Sentences::limit(size_t sentence) const {
  const int64_t tokens = std::ssize(queue_[sentence]) - 1;
  const int64_t given = options_.trees == nullptr ? tokens : std::max(tokens, queue_.words(sentence));
  return std::min(longest_, given + options_.max_extra);
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
    beams_[*next] = std::make_unique<Beam>(options_, limit(*next), eos_);
    if (allowed) allowed->begin(*next, source);
    ++sentences_;
    tokens_ += length;
  }
  if (allowed && !begun.rows.empty()) allowed->update();
  begun.source = PackedText(ids, begins);
  return begun;
}

void Sentences::gather() {
  ids.clear();
  masks.clear();
  in_tree.clear();
  row_begin.assign(1, 0);
  source_begin.assign(1, 0);
  std::vector<int32_t> parents;
  for (const auto& place : places_.places()) {
    if (place.sentence >= 0) {
      const auto s = static_cast<size_t>(place.sentence);
      const int32_t first = std::exchange(first_row_[s], static_cast<int32_t>(ids.size()));
      for (const Beam::Live& hypothesis : beams_[s]->live()) {
        ids.push_back(hypothesis.ids.empty() ? -1 : hypothesis.ids.back());
        parents.push_back(first < 0 ? -1 : first + hypothesis.parent);
        if (allowed) masks.insert(masks.end(), allowed->mask(s).begin(), allowed->mask(s).end());
        if (options_.trees != nullptr)
          options_.trees->next(hypothesis.ids, queue_.words(s), limit(s), in_tree.emplace_back());
      }
    }
    row_begin.push_back(static_cast<int32_t>(ids.size()));
    source_begin.push_back(place.begin + place.length);
  }
  cache.advance(parents);
  positions.clear();
  for (const int32_t length : cache.lengths()) positions.push_back(length - 1);
  weight_begin = weight_begins(row_begin, source_begin);
}

void Sentences::advance(std::span<const float> log_probabilities, std::span<const int32_t> best, int k,
                        ThreadPool& pool, const SearchDone& done) {
  const auto& places = places_.places();
  pool.parallel_for(std::ssize(places), kGrain, [&](int64_t begin, int64_t end) {
    for (auto p = static_cast<size_t>(begin); p < static_cast<size_t>(end); ++p) {
      if (places[p].sentence < 0) continue;
      const auto first = static_cast<size_t>(row_begin[p] * k), last = static_cast<size_t>(row_begin[p + 1] * k);
      beams_[static_cast<size_t>(places[p].sentence)]->advance(log_probabilities.subspan(first, last - first),
                                                               best.subspan(first, last - first), k);
    }
  });
  std::vector<int32_t> ended;
  for (const auto& place : places)
    if (place.sentence >= 0 && beams_[static_cast<size_t>(place.sentence)]->live().empty())
      ended.push_back(place.sentence);
  for (const int32_t sentence : ended) {
    const auto s = static_cast<size_t>(sentence);
    places_.free(sentence);
    if (allowed) allowed->end(s);
    --sentences_;
    tokens_ -= static_cast<int64_t>(queue_[s].size());
    done(s, std::exchange(beams_[s], nullptr)->best());
  }
}

}  // namespace nmt
