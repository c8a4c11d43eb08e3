// What a training validates, and which models and checkpoints follow.
#include <set>

#include "decode/line_translator.h"
#include "tests/train/training_fixture.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// The options of a training that was validated after two updates, with values as good as none will be.
TrainOptions validated(const TrainingFolder& folder) {
  TrainOptions o = folder.options();
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "2u";
  o.valid_metrics = {"cross-entropy", "bleu"};
  folder.fresh(o, "2u");
  folder.change([](nlohmann::json& state, Tensors&) { state["best"] = {{"cross-entropy", 0.5}, {"bleu", 200}}; });
  return o;
}

}  // namespace

TEST_CASE("which model is best by a metric is found anew where validation changes for it") {
  const TrainingFolder folder;
  TrainOptions o = validated(folder);
  const int search = GENERATE(0, 1, 2);
  const bool text = GENERATE(false, true);
  if (search == 1) o.search.beam = 2;
  if (search == 2) o.search.alpha = 0.9;
  if (text) std::swap(o.valid_sets[0], o.valid_sets[1]);
  folder.further(o, "4u");
  CHECK((folder.state()["best"]["cross-entropy"] == 0.5) == !text);
  CHECK((folder.state()["best"]["bleu"] == 200) == !(text || search > 0));
}

TEST_CASE("the best by a metric is kept while a run measures others, and forgotten where nothing says what it is of") {
  const TrainingFolder folder;
  TrainOptions o = validated(folder);
  TrainOptions other = o;
  other.valid_metrics = {"cross-entropy"};
  other.search.beam = 2;
  folder.further(other, "4u");
  CHECK(folder.state()["best"] == nlohmann::json({{"cross-entropy", 0.5}, {"bleu", 200}}));
  folder.change([](nlohmann::json& state, Tensors&) { state["measured-on"].erase("bleu"); });
  folder.further(o, "6u");
  CHECK(folder.state()["best"]["cross-entropy"] == 0.5);
  CHECK(folder.state()["best"]["bleu"] != 200);
}

TEST_CASE("the last update is validated whatever is due, on whole lines") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.valid_sets = {folder / "long", folder / "long"};
  {
    std::ofstream file(o.valid_sets[0]);
    for (int i = 0; i <= LineLimits().max_length; ++i) file << "w1 ";
  }
  o.valid_freq = "1000u";
  o.valid_metrics = {"bleu"};
  o.search.beam = 1;
  o.log_file = folder / "log";
  folder.fresh(o, "5u");
  CHECK(std::filesystem::exists(folder / "m.best-bleu.safetensors"));
  CHECK(read_file(o.log_file).find(" is cut ") == std::string::npos);
}

TEST_CASE("an end that the options bring, not an update, is validated, once") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "5u");
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "0";
  o.log_json = folder / "log.json";
  for (int run = 0; run < 2; ++run) folder.further(o, "4u");
  const auto validations = logged(o.log_json, "validation");
  REQUIRE(validations.size() == 1);
  CHECK(validations[0].at("update") == 5);
  CHECK(std::filesystem::exists(folder / "m.best-cross-entropy.safetensors"));
}

TEST_CASE("what fell due by the clock while the last update of a run ended comes after the next one") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "5u");
  const bool asked = GENERATE(false, true);
  folder.change([&](nlohmann::json& state, Tensors&) {
    state["seconds"] = 1000.5;
    state["looked"] = asked ? 1000.5 : 999.5;
  });
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "1000s";
  o.log_json = folder / "log.json";
  folder.further(o, "8u");
  std::vector<int64_t> updates;
  for (const auto& json : logged(o.log_json, "validation")) updates.push_back(json.at("update"));
  CHECK(updates == (asked ? std::vector<int64_t>{8} : std::vector<int64_t>{6, 8}));
}

TEST_CASE("a new best model is saved with the checkpoint that knows of it") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "1u";
  o.save_freq = "0";
  o.learn_rate = 0.2;  // so that some are no better
  o.log_json = folder / "log.json";
  folder.fresh(o, "20u");
  std::set<int64_t> best, saved;
  for (const auto& json : logged(o.log_json, "validation"))
    if (json.at("best") == true) best.insert(json.at("update").get<int64_t>());
  CHECK(best.size() > 1);
  CHECK(best.size() < 20);
  best.insert(20);  // the end
  for (const auto& json : logged(o.log_json, "save")) saved.insert(json.at("update").get<int64_t>());
  CHECK(saved == best);
}

TEST_CASE("a model whose validation gives no number is not the best, though there is none yet") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "2u");
  // Finite parameters whose products are not.
  folder.change([](nlohmann::json&, Tensors& tensors) {
    for (float& v : tensors.at("encoder.0.self_attention.query.weight")) v = 3e38f;
  });
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "1u";
  o.valid_metrics = {"cross-entropy", "bleu"};
  o.log_json = folder / "log.json";
  folder.further(o, "3u");
  int validations = 0;
  for (const auto& json : logged(o.log_json, "validation")) {
    ++validations;
    CHECK(json.at("value").is_null());
    CHECK(json.at("best") == false);
  }
  CHECK(validations == 2);
  for (const auto& metric : o.valid_metrics)
    CHECK(!std::filesystem::exists(folder / "m.best-" + metric + ".safetensors"));
}

TEST_CASE("a model whose last loss was no number is no new best, as no checkpoint would know of it") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.exponential_smoothing = 0.1;
  o.valid_sets = o.data.train_sets;
  o.valid_freq = "1u";
  folder.fresh(o, "2u");
  const std::string best = folder / "m.best-cross-entropy.safetensors", before = read_file(best);
  folder.change([](nlohmann::json& state, Tensors& tensors) {
    state["best"] = {{"cross-entropy", 1e9}};
    for (float& v : tensors.at("encoder.0.self_attention.query.weight")) v = 3e38f;  // smoothed, it is what it was
  });
  o.log_json = folder / "log.json";
  folder.further(o, "3u");
  const auto validations = logged(o.log_json, "validation");
  REQUIRE(validations.size() == 1);
  CHECK(validations[0].at("value").is_number());
  CHECK(validations[0].at("best") == false);
  CHECK(read_file(best) == before);
}
