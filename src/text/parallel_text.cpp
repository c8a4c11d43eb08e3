#include "text/parallel_text.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "text/pair_reader.h"

namespace nmt {

ParallelText ParallelText::read(const std::vector<std::string>& paths, const Vocab& source, const Vocab& target,
                                const BatchLimits& limits, int64_t longest, int threads, bool target_trees) {
  ParallelText text;
  PairReader reader(paths, target_trees);
  std::vector<std::pair<int64_t, int64_t>> places;
  for (TextPair pair; reader.next(pair);) {
    places.emplace_back(pair.set, pair.line);
    text.source.push_back(pair.source);
    text.target.push_back(pair.target);
  }

  ThreadPool pool(threads);
  const auto sources = source.encode_lines(text.source, pool), targets = target.encode_lines(text.target, pool);
  std::vector<PairLength> lengths;
  for (size_t i = 0; i < sources.size(); ++i) {
    lengths.push_back({static_cast<int32_t>(sources[i].ids.size()), static_cast<int32_t>(targets[i].ids.size())});
    for (const bool is_target : {false, true}) {
      const auto& [ids, whole] = (is_target ? targets : sources)[i];
      const auto place = reader.place(places[i].first, places[i].second, is_target);
      require(whole, "{}: the sentence is longer than {} KiB: leave it out", place, Vocab::kMostLineBytes >> 10);
      require(std::ssize(ids) < longest,
              "{}: the sentence has {} tokens and an end token, but the model has only {} positions "
              "(--transformer-max-positions)",
              place, ids.size(), longest);
    }
  }

  auto order = order_by_length(lengths);
  std::erase_if(order, [&](uint32_t i) { return lengths[i].source + lengths[i].target == 0; });
  require(!order.empty(), "no sentence pair in {}: there is no text", reader.names());
  const auto append = [](std::vector<int32_t>& ids, const std::vector<int32_t>& sentence, int32_t eos) {
    ids.insert(ids.end(), sentence.begin(), sentence.end());
    ids.push_back(eos);
  };
  for (const auto& [begin, end] : cut_batches(lengths, order, limits)) {
    Batch& batch = text.batches.emplace_back();
    for (uint32_t k = begin; k < end; ++k) {
      append(batch.source, sources[order[k]].ids, source.eos_id());
      append(batch.target, targets[order[k]].ids, target.eos_id());
      batch.close_pair(order[k]);
    }
  }
  return text;
}

}  // namespace nmt
