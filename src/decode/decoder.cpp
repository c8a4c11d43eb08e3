#include "decode/decoder.h"

#include <exception>
#include <mutex>
#include <thread>

namespace nmt {

struct Decoder::Apart {
  Apart(std::span<const Scorer> scorers, const Runtime& like, const SearchOptions& options)
      : runtime(1, like), search(scorers, runtime, options) {}

  Runtime runtime;
  Search search;
};

Decoder::Decoder(std::span<const Scorer> scorers, Runtime& runtime, const SearchOptions& options)
    : runtime_(runtime),
      options_(options),
      scorers_(scorers.begin(), scorers.end()),
      together_(scorers, runtime, options_) {}

Decoder::~Decoder() = default;

void Decoder::translate(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                        const SearchDone& done) {
  const auto threads = static_cast<size_t>(runtime_.pool().size());
  const bool many = threads > 1 && static_cast<int64_t>(sources.size() / threads) >= limits.sentences / 2;
  if (many) return translate_apart(sources, limits, done);
  SourceQueue queue(sources);
  together_.translate(queue, limits, done);
}

// Threads that need not wait for one another are faster. The last source comes first, by all threads: they pack the
// weights together.
void Decoder::translate_apart(std::span<const std::vector<int32_t>> sources, const SearchLimits& limits,
                              const SearchDone& done) {
  const auto threads = static_cast<size_t>(runtime_.pool().size());
  size_t first = sources.size();
  if (apart_.empty()) {
    --first;
    SourceQueue last(sources.subspan(first));
    together_.translate(last, limits, [&](size_t, std::vector<Hypothesis> best) { done(first, std::move(best)); });
    while (apart_.size() < threads) apart_.push_back(std::make_unique<Apart>(scorers_, runtime_, options_));
  }
  Profile& profile = runtime_.profile;
  const PhaseScope phase(profile, "waiting");
  const double waited = profile.seconds("waiting");
  SourceQueue queue(sources.first(first));
  std::mutex mutex;
  std::exception_ptr failure;
  const auto one_by_one = [&](size_t index, std::vector<Hypothesis> best) {
    const std::lock_guard lock(mutex);
    done(index, std::move(best));
  };
  const auto work = [&](Apart& worker) {
    worker.runtime.profile = Profile(profile.times_ops);
    try {
      worker.search.translate(queue, limits, one_by_one);
    } catch (...) {
      queue.close();
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (const auto& worker : apart_) workers.emplace_back([&] { work(*worker); });
  }
  profile.enter("waiting");
  const double all = profile.seconds("waiting") - waited;
  for (const auto& worker : apart_)
    profile.absorb(worker->runtime.profile, 1.0 / static_cast<double>(threads), "waiting");
  // Threads of the pool had nothing to do meanwhile, but those of the workers had.
  const double idle = profile.seconds("waiting") - waited;
  profile.waiting += idle * static_cast<double>(threads) - all * static_cast<double>(threads - 1);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace nmt
