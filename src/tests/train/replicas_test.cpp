#include "train/replicas.h"

#include "base/error.h"
#include "base/log.h"
#include "tests/complaint.h"
#include "tests/device.h"
#include "tests/train/training_fixture.h"
#include "tests/variable.h"
#include "train/training_setup.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// Of sentences of this many words, source and target.
Batch batch_of(int sentences, int words) {
  Batch batch;
  for (int i = 0; i < sentences; ++i) {
    for (int w = 0; w < words; ++w) {
      batch.source.push_back((i + w) % TrainingFolder::kWords);
      batch.target.push_back((i * w) % TrainingFolder::kWords);
    }
    batch.close_pair(i);
  }
  return batch;
}

struct Training {
  explicit Training(TrainOptions o) : options(std::move(o)), model(config(options)) {
    replicas = std::make_unique<Replicas>(options, model);
    model.transformer.initialise(model.parameters, 1, false);
    moments = std::make_unique<Moments>(model.parameters.size(), false);
    replicas->start(*moments, {});
  }
  static ModelConfig config(const TrainOptions& options) {
    ModelConfig config = options.model;
    config.source_vocabulary = config.target_vocabulary = TrainingFolder::kWords;
    return config;
  }

  TrainOptions options;
  Model model;
  std::unique_ptr<Moments> moments;
  std::unique_ptr<Replicas> replicas;
};

}  // namespace

TEST_CASE("a device's memory is taken before the first update, and suffices") {
  const Variable emulated("NMT_EMULATED_DEVICES", "3");
  if (test_device("2") == nullptr) return;
  TrainOptions o = TrainingFolder().options();
  o.model.dropout = 0.1;
  o.devices = {"2"};
  o.precision = GENERATE("bf16", "f32");  // what needs more comes last: the peak is the process's
  Training training(o);
  Replicas& replicas = *training.replicas;
  replicas.reserve(batch_of(20, 10));
  const int64_t used = replicas.used();
  CHECK(used > training.model.parameters.size() * 16);
  for (int update = 1; update <= 4; ++update) {
    const Batch batch = batch_of(5 * update, 10);
    replicas.accumulate({batch, batch_of(1, 3)}, batch.target_words() + 3, update);
    replicas.update(update_rule(o, update));
    CHECK(replicas.outcome().made);
    CHECK(replicas.used() == used);
  }
  // Other tests of this process may have had more of another device, not of this one.
  CHECK(static_cast<double>(replicas.peak()) <= 1.02 * static_cast<double>(used));
}

TEST_CASE("reserving memory leaves a training as it is") {
  TrainOptions o = TrainingFolder().options();
  if (GENERATE(false, true)) {
    if (test_device() == nullptr) return;
    o.devices = {"0"};
  }
  const auto loss = [&](bool reserves) {
    Training training(o);
    if (reserves) training.replicas->reserve(batch_of(20, 10));
    const Batch batch = batch_of(8, 7);
    training.replicas->accumulate({batch}, batch.target_words(), 1);
    training.replicas->update(update_rule(o, 1));
    const Update update = training.replicas->outcome();
    training.replicas->download();
    const auto values = training.model.parameters.values();
    return std::pair(update.loss, std::vector<float>(values.begin(), values.end()));
  };
  CHECK((loss(true) == loss(false)));
}

TEST_CASE("what a validation lacked memory to translate together, it does not try again") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.valid_sets = o.data.train_sets;
  o.valid_metrics = {"bleu"};
  TrainingSetup setup(o);
  setup.load_data();
  setup.initialise();
  setup.start();
  log::copy_to_file(folder / "log");
  const auto measure = [&](bool lacks_memory) {
    return setup.validator->measure(setup.replicas->first(), *setup.model, 1, [&] {
      if (std::exchange(lacks_memory, false)) throw std::bad_alloc();
    });
  };
  const auto expected = measure(false);
  CHECK(measure(true) == expected);
  CHECK(measure(true) == expected);
  const std::string log = read_file(folder / "log");
  const size_t first = log.find(fmt::format("from now on {} lines at most", TrainingFolder::kPairs / 2));
  REQUIRE(first != log.npos);
  CHECK(log.find(fmt::format("from now on {} lines at most", TrainingFolder::kPairs / 4), first) != log.npos);
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("a device that is too small for a training says so before the first update") {
  const Variable memory("NMT_EMULATED_MEMORY", "8");
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.devices = {"0"};
  o.model.dim_emb = 64;
  o.model.dim_ffn = 1024;
  o.data.mini_batch = 60;
  const std::string message = complaint_of<OutOfMemory>([&] { folder.fresh(o, "1u"); });
  CHECK(message.find("MB are needed") != std::string::npos);
  CHECK(!std::filesystem::exists(folder.state_path()));
}

TEST_CASE("a model that is too large for its device is said to be that, whatever of it lacks memory first") {
  const Variable memory("NMT_EMULATED_MEMORY", "8");
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.devices = {"0"};
  o.model.dim_ffn = GENERATE(5000, 8000, 20000);
  const std::string message = complaint_of<OutOfMemory>([&] { folder.fresh(o, "1u"); });
  CHECK(message.ends_with("; a smaller model needs less (--dim-emb, --transformer-dim-ffn, --enc-depth, --dec-depth)"));
}

TEST_CASE("a validation that is too large for its device says what makes it smaller before the first update") {
  const Variable memory("NMT_EMULATED_MEMORY", "8");
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.devices = {"0"};
  o.model.dim_ffn = 2560;
  o.valid_sets = o.data.train_sets;
  o.valid_batch_words = GENERATE(30, 4000);
  const std::string message = complaint_of<OutOfMemory>([&] { folder.fresh(o, "1u"); });
  const bool fits = o.valid_batch_words == 30;
  CHECK(message.empty() == fits);
  CHECK(message.ends_with("; a smaller --valid-batch-words needs less") == !fits);
  CHECK(std::filesystem::exists(folder.state_path()) == fits);
}
#endif
