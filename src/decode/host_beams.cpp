#include "decode/host_beams.h"

#include <utility>

#include "decode/tree_grammar.h"

namespace nmt {
namespace {

constexpr int64_t kGrain = 64;  // sentences whose beams go on in one task

}  // namespace

void HostBeams::gather(Sentences& sentences) {
  ids_.clear();
  in_tree_.clear();
  std::vector<int32_t> parents, rows;
  for (const int32_t s : sentences.under_way()) {
    const int64_t limit = sentences.limit(s);
    auto known = under_way_.find(s);
    const bool is_new = known == under_way_.end();
    if (is_new) known = under_way_.emplace(s, UnderWay{Beam(options_, limit, eos_, sentences.key(s)), 0}).first;
    UnderWay& search = known->second;
    const Beam& beam = search.beam;
    const int32_t first = std::exchange(search.first_row, static_cast<int32_t>(ids_.size()));
    rows.push_back(beam.live());
    for (int32_t h = 0; h < beam.live(); ++h) {
      const BeamToken last = beam.last(h);
      ids_.push_back(last.id);
      parents.push_back(is_new ? -1 : first + last.parent);
      if (options_.trees != nullptr)
        options_.trees->next(beam.ids(h), sentences.words(s), limit, in_tree_.emplace_back());
    }
  }
  sentences.lay_out(rows);
  cache_.advance(parents);
  positions_.clear();
  for (const int32_t length : cache_.lengths()) positions_.push_back(length - 1);
}

Transformer::StepRows HostBeams::rows(Graph& graph) const {
  return Transformer::step_rows(graph, ids_, positions_, cache_.slot(), cache_.entry(), cache_.lengths());
}

void HostBeams::advance(std::span<const float> log_probabilities, std::span<const int32_t> best, int k,
                        ThreadPool& pool, Sentences& sentences, const SearchDone& done) {
  const int32_t* names = sentences.allowed ? sentences.allowed->ids().data() : nullptr;
  std::vector<UnderWay*> searches;
  for (auto& [sentence, search] : under_way_) searches.push_back(&search);
  pool.parallel_for(std::ssize(searches), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      UnderWay& search = *searches[static_cast<size_t>(i)];
      const auto width = static_cast<size_t>(k), first = static_cast<size_t>(search.first_row) * width,
                 count = static_cast<size_t>(search.beam.live()) * width;
      search.beam.advance(log_probabilities.subspan(first, count), best.subspan(first, count), k, names);
    }
  });
  for (const int32_t s : sentences.under_way()) {
    const auto ended = under_way_.find(s);
    if (ended->second.beam.live() > 0) continue;
    sentences.end(s);
    auto found = ended->second.beam.best();
    under_way_.erase(ended);
    done(static_cast<size_t>(s), std::move(found));
  }
}

}  // namespace nmt
