#include "decode/decoder.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace nmt {

struct Decoder::Apart {
  Apart(std::span<const Scorer> scorers, const Runtime& like, const SearchOptions& options, const Shortlist* shortlist)
      : runtime(1, like), search(scorers, runtime, options, shortlist) {}

  Runtime runtime;
  Search search;
};

Decoder::Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
                 const Shortlist* shortlist)
    : runtime_(runtime),
      options_(options),
      scorers_(scorers.begin(), scorers.end()),
      shortlist_(shortlist),
      together_(scorers, runtime, options_, shortlist) {
  // Weights are packed when they are first needed; by all threads, if by a sentence without words, of one step.
  SearchOptions once = options;
  once.max_extra = 1;
  const std::vector<int32_t> nothing = {scorers[0].transformer->config().source_eos};
  SourceQueue queue(std::span(&nothing, 1));
  Search(scorers, runtime, once, shortlist).translate(queue, {}, [](size_t, const auto&) {});
}

Decoder::~Decoder() = default;

void Decoder::translate(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                        const SearchDone& done) {
  const auto threads = static_cast<size_t>(runtime_.pool().size());
  const auto each = static_cast<int64_t>(sources.size() / threads);
  const bool many = runtime_.backend()->on_host() && threads > 1 && each >= std::max<int64_t>(1, limits.sentences / 2);
  if (many) return translate_apart(sources, limits, done);
  SourceQueue queue(sources);
  together_.translate(queue, limits, done);
}

// Threads that need not wait for one another are faster.
void Decoder::translate_apart(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                              const SearchDone& done) {
  const auto threads = static_cast<size_t>(runtime_.pool().size());
  while (apart_.size() < threads) apart_.push_back(std::make_unique<Apart>(scorers_, runtime_, options_, shortlist_));
  Profile& profile = runtime_.profile;
  const PhaseScope phase(profile, "waiting");
  const double before = profile.seconds("waiting");
  std::deque<SourceQueue> queues;
  for (size_t i = 0; i < threads; ++i) queues.emplace_back(sources, i, threads);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto one_by_one = [&](size_t index, std::vector<Hypothesis> best) {
    const std::lock_guard lock(mutex);
    done(index, std::move(best));
  };
  const auto work = [&](Apart& worker, SourceQueue& queue) {
    worker.runtime.profile = Profile(profile.times_ops);
    try {
      worker.search.translate(queue, limits, one_by_one);
    } catch (...) {
      for (SourceQueue& q : queues) q.close();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    worker.runtime.profile.enter("waiting");
  };
  {
    std::vector<std::jthread> workers;
    for (size_t i = 0; i < threads; ++i) workers.emplace_back([&, i] { work(*apart_[i], queues[i]); });
  }
  profile.enter("waiting");
  const auto n = static_cast<double>(threads);
  const double elapsed = profile.seconds("waiting") - before;
  for (const auto& worker : apart_) profile.absorb(worker->runtime.profile, 1 / n, "waiting");
  // What the workers did has left this phase: the mean time of one that had ended remains.
  const double idle = profile.seconds("waiting") - before;
  // The workers waited n * idle. But the pool, whose other n - 1 threads were not asked, counts all their time.
  profile.waiting += n * idle - (n - 1) * elapsed;
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nmt
