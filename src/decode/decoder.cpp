#include "decode/decoder.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace nmt {

struct Decoder::Apart {
  Apart(std::unique_ptr<Runtime> its_runtime, std::span<const Scorer> scorers, const SearchOptions& options,
        const Shortlist* shortlist)
      : runtime(std::move(its_runtime)), search(scorers, *runtime, options, shortlist) {}

  std::unique_ptr<Runtime> runtime;
  Search search;
};

Decoder::Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options,
                 const Shortlist* shortlist, std::vector<FurtherDevice> further)
    : runtime_(runtime),
      options_(options),
      scorers_(scorers.begin(), scorers.end()),
      shortlist_(shortlist),
      further_(std::move(further)),
      together_(scorers, runtime, options_, shortlist) {
  // Weights are packed when they are first needed: by all threads, as these translate an empty sentence in one step.
  SearchOptions once = options;
  once.max_extra = 1;
  const std::vector<int32_t> nothing = {scorers[0].transformer->config().source_eos};
  SourceQueue queue(std::span(&nothing, 1));
  Search(scorers, runtime, once, shortlist).translate(queue, {}, [](size_t, const auto&) {});
}

Decoder::~Decoder() = default;

size_t Decoder::workers() const {
  return runtime_.backend()->on_host() ? static_cast<size_t>(runtime_.pool().size()) : 1 + further_.size();
}

std::unique_ptr<Decoder::Apart> Decoder::worker(size_t i) const {
  if (runtime_.backend()->on_host())
    return std::make_unique<Apart>(std::make_unique<Runtime>(1, runtime_), scorers_, options_, shortlist_);
  const auto& backend = i == 0 ? runtime_.backend() : further_[i - 1].backend;
  const auto threads = std::max(1, runtime_.pool().size() / static_cast<int>(workers()));
  return std::make_unique<Apart>(std::make_unique<Runtime>(threads, runtime_.compute(), false, backend),
                                 i == 0 ? scorers_ : further_[i - 1].scorers, options_, shortlist_);
}

// Where memory does not suffice for the work, what was kept may be what fewer sentences lack.
template <class Work>
auto Decoder::in_memory(Work work) try {
  return with_out_of_memory(work);
} catch (const OutOfMemory&) {
  together_.release();
  for (const auto& worker : apart_) worker->search.release();
  throw;
}

std::vector<std::vector<float>> Decoder::score(std::span<const IdPair> pairs) {
  return in_memory([&] { return together_.score(pairs); });
}

bool Decoder::translates_apart(size_t sources, const SearchLimits& limits) const {
  const size_t threads = workers();
  // On the host few are better translated by all threads together; devices cannot.
  const int64_t enough = runtime_.backend()->on_host() ? std::max<int64_t>(1, limits.sentences / 2) : 1;
  return limits.apart && threads > 1 && static_cast<int64_t>(sources / threads) >= enough;
}

void Decoder::translate(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                        const SearchDone& done, std::span<const int32_t> words) {
  in_memory([&] {
    if (translates_apart(sources.size(), limits)) return translate_apart(sources, limits, done, words);
    for (const auto& worker : apart_) worker->search.release();
    SearchLimits of_all = limits;
    if (runtime_.backend()->on_host()) of_all.tokens *= runtime_.pool().size();  // more rows share the weights' reading
    SourceQueue queue(sources, words);
    together_.translate(queue, of_all, done);
  });
}

// Threads that need not wait for one another are faster.
void Decoder::translate_apart(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                              const SearchDone& done, std::span<const int32_t> words) {
  const size_t threads = workers();
  while (apart_.size() < threads) apart_.push_back(worker(apart_.size()));
  Profile& profile = runtime_.profile;
  const PhaseScope phase(profile, "waiting");
  const double before = profile.seconds("waiting");
  std::deque<SourceQueue> queues;
  for (size_t i = 0; i < threads; ++i) queues.emplace_back(sources, words, i, threads);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto one_by_one = [&](size_t index, std::vector<Hypothesis> best) {
    const std::lock_guard lock(mutex);
    done(index, std::move(best));
  };
  const auto end_early = [&] {  // where an exception is under way
    for (SourceQueue& q : queues) q.close();
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
  };
  const auto work = [&](Apart& worker, SourceQueue& queue) {
    try {
      worker.runtime->profile = Profile(profile.times_ops);
      worker.search.translate(queue, limits, one_by_one);
      worker.runtime->profile.enter("waiting");
    } catch (...) {
      end_early();
    }
  };
  {
    std::vector<std::jthread> workers;
    try {
      for (size_t i = 0; i < threads; ++i) workers.emplace_back([&, i] { work(*apart_[i], queues[i]); });
    } catch (...) {  // too many threads run already
      end_early();
    }
  }
  profile.enter("waiting");
  const auto n = static_cast<double>(threads);
  const double elapsed = profile.seconds("waiting") - before;
  for (const auto& worker : apart_) profile.absorb(worker->runtime->profile, 1 / n, "waiting");
  // What the workers did has left this phase: the mean time of one that had ended remains.
  const double idle = profile.seconds("waiting") - before;
  // The workers waited n * idle. But the pool, whose other threads were not asked, counts all their time.
  profile.waiting += n * idle - (runtime_.pool().size() - 1) * elapsed;
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nmt
