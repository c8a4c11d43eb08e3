#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/batch.h"
#include "text/corpus.h"

namespace nmt {

// A place in the endless stream of batches: what a checkpoint stores. The windows of an epoch are parts of its order
// whose batches are made together (--maxi-batch); any of them is made without those before it.
struct Position {
  uint64_t epoch = 0, window = 0, batch = 0;  // the batch within its window

  auto operator<=>(const Position&) const = default;
};

// A batch on its way to the trainer.
struct TrainingBatch {
  Batch batch;
  Position next;  // of the batch that follows: to be stored once this one is trained on

  bool ends_epoch() const { return next.window == 0 && next.batch == 0; }
  bool operator==(const TrainingBatch&) const = default;
};

// The batches of epoch after epoch. Each epoch has every pair of the corpus once, in an order that depends on the seed,
// the epoch and the options alone. Starting anywhere gives, from there, exactly what an uninterrupted stream gives.
class BatchStream {
 public:
  // Throws UserError where `start` lies outside the corpus: it was written for other files or options.
  BatchStream(std::shared_ptr<const Corpus> corpus, const DataOptions& options, uint64_t seed, Position start = {});

  TrainingBatch next();

 private:
  uint64_t window_border(uint64_t window) const;
  void load_window();

  const std::shared_ptr<const Corpus> corpus_;
  const BatchLimits limits_;
  const bool shuffle_pairs_, shuffle_batches_;
  const uint64_t pair_seed_, batch_seed_;
  uint64_t windows_;  // in an epoch
  Position position_;

  // The window at position_: batch i takes the pairs order_[runs_[i].first .. runs_[i].second).
  std::vector<int64_t> pairs_;
  std::vector<PairLength> lengths_;
  std::vector<uint32_t> order_;
  std::vector<std::pair<uint32_t, uint32_t>> runs_;
  std::vector<uint8_t> buffer_;
  std::vector<const uint8_t*> records_;
};

// A batch that is in every respect at least as large as any of the stream's: tokens, sentences, the longest of these on
// each side (ids are 0). With several parts, of the size of one (see Batch::part): its share and a quarter, as one side
// may have more of the tokens, and the longest sentence. (Where target lengths are hardly those of sources, a part may
// have more; the memory is then taken when it comes.)
Batch largest_batch(const Corpus& corpus, const BatchLimits& limits, int64_t parts = 1);

// What the log says after an epoch.
struct EpochReport {
  CorpusCounts corpus;
  BatchCounts batches;

  std::vector<std::string> lines() const;
};

}  // namespace nmt
