#include <cmath>
#include <fstream>

#include "base/error.h"
#include "io/model_file.h"
#include "io/training_files.h"
#include "tests/catch.h"
#include "tests/complaint.h"
#include "tests/temp_folder.h"
#include "train/tasks.h"
#include "train/train_log.h"
#include "train/train_options.h"
#include "train/valid_metrics.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// As nmt-train reads `--task name` and other options.
TrainOptions of_task(const std::string& name, const std::vector<std::pair<std::string, std::string>>& given = {}) {
  TrainOptions o;
  Options options;
  o.declare(options);
  options.find("task")->set({name});
  for (const auto& [option, value] : given) options.find(option)->set({value});
  options.end_source();
  o.settle(options);
  o.validate();
  return o;
}

}  // namespace

TEST_CASE("every recipe is complete and its model can be made") {
  for (const Task& task : tasks()) {
    INFO(task.name);
    TrainOptions o = of_task(task.name);
    o.model.source_vocabulary = o.model.target_vocabulary = 10;
    CHECK_NOTHROW(o.model.validate());
    CHECK(!task.help.empty());
  }
}

TEST_CASE("recipes have the paper's numbers") {
  const TrainOptions base = of_task("transformer-base"), big = of_task("transformer-big");
  CHECK(base.model.dim_emb == 512);
  CHECK(base.model.dim_ffn == 2048);
  CHECK(base.model.heads == 8);
  CHECK(base.model.d_k() == 64);
  CHECK(base.model.enc_depth == 6);
  CHECK(base.model.dropout == 0.1);
  CHECK(base.label_smoothing == 0.1);
  CHECK(base.lr_warmup == 4000);
  CHECK(base.adam == std::vector<double>{0.9, 0.98, 1e-9});
  CHECK(base.after == "100Ku");
  CHECK(base.data.limits().source_words == 25000);
  CHECK(big.model.dim_emb == 1024);
  CHECK(big.model.dim_ffn == 4096);
  CHECK(big.model.heads == 16);
  CHECK(big.model.dropout == 0.3);
  CHECK(big.after == "300Ku");
  // Table 3: heads share the width (A), keys alone are narrower (B).
  const TrainOptions heads = of_task("table3-A-32heads"), keys = of_task("table3-B-dk16");
  CHECK(heads.model.heads * heads.model.d_k() == 512);
  CHECK(heads.model.heads * heads.model.d_v() == 512);
  CHECK(keys.model.d_k() == 16);
  CHECK(keys.model.d_v() == 64);
}

TEST_CASE("options given beside a recipe win") {
  const TrainOptions o = of_task("transformer-big", {{"dim-emb", "256"}, {"after", "5e"}});
  CHECK(o.model.dim_emb == 256);
  CHECK(o.after == "5e");
  CHECK(o.model.dim_ffn == 4096);
  CHECK(o.threads == 0);  // this machine's cores are no part of the options
}

TEST_CASE("a model to begin with counts less than options and more than a recipe") {
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  ModelConfig config{.dim_emb = 64, .heads = 2, .norm = "pre", .dropout = 0.25};
  config.source_vocabulary = config.target_vocabulary = 10;
  ModelContent content;
  content.metadata[std::string(kConfigKey)] = config.to_json();
  write_model(path, content);
  const TrainOptions o = of_task("transformer-big", {{"pretrained-model", path}, {"transformer-heads", "4"}});
  CHECK(o.model.dim_emb == 64);
  CHECK(o.model.heads == 4);
  CHECK(o.model.norm == "pre");
  CHECK(o.model.dropout == 0.25);
  CHECK(o.after == "300Ku");
  CHECK(complaint_of([&] {
          of_task("transformer-base", {{"pretrained-model", path}, {"transformer-depth-scaling", "true"}});
        }).starts_with("--transformer-depth-scaling is for parameters that begin at random"));
  CHECK(complaint_of([&] {
          of_task("transformer-base", {{"pretrained-model", path}, {"model", path}});
        }) ==
        fmt::format("--pretrained-model and --model are one file, {}: what is written needs a file of its own", path));
}

TEST_CASE("an option that sets two hides what counts less than it") {
  const auto words = [](const std::vector<std::vector<std::string>>& sources) {
    TrainOptions o;
    Options options;
    o.declare(options);
    for (const auto& source : sources) {
      for (size_t i = 0; i < source.size(); i += 2)
        if (!options.find(source[i])->given()) options.find(source[i])->set({source[i + 1]});
      options.end_source();
    }
    o.settle(options);
    Options again;
    TrainOptions read;
    read.declare(again);
    const TempFolder folder;
    std::ofstream(folder / "dump") << options.dump();
    again.read_config(folder / "dump");
    read.settle(again);
    CHECK(read.data.limits().source_words == o.data.limits().source_words);
    CHECK(read.data.limits().target_words == o.data.limits().target_words);
    return std::pair(o.data.limits().source_words, o.data.limits().target_words);
  };
  using Pair = std::pair<int64_t, int64_t>;
  CHECK(words({}) == Pair(25000, 25000));
  CHECK(words({{"mini-batch-words", "400"}}) == Pair(400, 400));
  CHECK(words({{"mini-batch-words", "400"}, {"batch-source-words", "500"}}) == Pair(400, 400));
  CHECK(words({{"batch-source-words", "500"}, {"mini-batch-words", "400"}}) == Pair(500, 400));
  CHECK(words({{"batch-target-words", "500"}, {"task", "transformer-tiny"}}) == Pair(8192, 500));
  CHECK(words({{"mini-batch-words", "400"}, {"mini-batch-words", "300"}}) == Pair(400, 400));
  CHECK_THROWS_AS(words({{"mini-batch-words", "400", "batch-target-words", "500"}}), UserError);
  CHECK_THROWS_AS(words({{}, {"mini-batch-words", "400", "batch-target-words", "500"}}), UserError);
}

TEST_CASE("numbers of the log have commas") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(77303338) == "77,303,338");
  CHECK(with_commas(-123) == "-123");
  CHECK(with_commas(-1234) == "-1,234");
}

TEST_CASE("a parser's brackets count as nmt-eval counts its trees, and its tags do not") {
  Measured m;
  m.sources = {"the cat sleeps .", "dogs bark"};
  m.references = {"(S (NP DT NN )NP (VP VBZ )VP . )S", "(S (NP NNS )NP (VP VBP )VP )S"};
  m.translations = m.references;
  const auto f1 = [&] { return valid_metric("brackets").value(m); };
  CHECK(f1() == 100);
  // Another tag changes nothing, although EVALB would leave out a word tagged as punctuation.
  m.translations[0] = "(S (NP DT . )NP (VP VBZ )VP NN )S";
  CHECK(f1() == 100);
  // Of six brackets a side, five are right.
  m.translations[1] = "(S (NP NNS )NP (NP VBP )NP )S";
  CHECK(f1() == Approx(100 * 5.0 / 6));
}

TEST_CASE("BLEU of Chinese counts characters") {
  Measured m;
  m.references = {"我们在这里买了三本书。"};
  m.translations = {"我们在这里买了两本书。"};
  CHECK(valid_metric("bleu").value(m) == 0);
  CHECK(valid_metric("bleu-zh").value(m) == Approx(100 * std::pow(10. / 11 * 8 / 10 * 6 / 9 * 4 / 8, 0.25)));
}

TEST_CASE("a value that is none is never the best") {
  CHECK(valid_metric("bleu").is_better(2, 1));
  CHECK(!valid_metric("chrf").is_better(1, 2));
  CHECK(valid_metric("perplexity").is_better(1, 2));
  CHECK(!valid_metric("cross-entropy").is_better(2, 2));
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const ValidMetric& metric : valid_metrics()) CHECK(!metric.is_better(value, 2));
  }
}

TEST_CASE("the best model of every metric is known as a training's own file") {
  const TrainingFiles files("m.safetensors");
  for (const auto& metric : valid_metric_names())
    CHECK_THROWS_AS(files.refuse_own("log", files.best(metric)), UserError);
}
