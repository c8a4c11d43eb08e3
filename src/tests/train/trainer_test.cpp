#include "base/error.h"
#include "base/line_reader.h"
#include "tests/complaint.h"
#include "tests/compute_types.h"
#include "tests/device.h"
#include "tests/train/training_fixture.h"
#include "tests/variable.h"
#include "train/dry_run.h"

using namespace nmt;
using namespace nmt::testing;

namespace {

// The file's costs by update.
std::map<int64_t, double> costs(const std::string& json_log) {
  std::map<int64_t, double> found;
  for (const auto& json : logged(json_log, "update")) found[json.at("update")] = json.at("cost");
  return found;
}

// Options that use everything a run keeps between updates.
TrainOptions rich_options(const TrainingFolder& folder, DType precision) {
  TrainOptions o = folder.options();
  o.precision = name_of(precision);
  o.optimizer_delay = 2;
  o.exponential_smoothing = 0.05;
  o.clip_norm = 0.5;
  o.model.dropout = o.model.dropout_attention = o.model.dropout_ffn = 0.1;
  return o;
}

}  // namespace

TEST_CASE("gradients accumulated over k batches are those of one batch of all") {
  const TrainingFolder folder;
  const int delay = GENERATE(2, 3, 5);
  TrainOptions whole = folder.options();
  whole.model.dropout = 0;
  whole.data.shuffle = "none";  // consecutive batches of the same order
  whole.data.mini_batch = 2 * delay;
  whole.disp_freq = "1u";
  TrainOptions parts = whole;
  parts.data.mini_batch = 2;
  parts.optimizer_delay = delay;

  whole.log_json = folder / "whole.json";
  parts.log_json = folder / "parts.json";
  // Adam's first mean is a tenth of the gradient.
  const auto one = with_prefix(folder.fresh(whole, "1u"), "adam.m.");
  const auto many = with_prefix(folder.fresh(parts, "1u"), "adam.m.");
  CHECK(difference(many, one) < 1e-5);
  CHECK(difference(many, one) > 0);  // they were computed in other ways

  folder.fresh(whole, "8u");
  folder.fresh(parts, "8u");
  const auto expected = costs(whole.log_json), found = costs(parts.log_json);
  REQUIRE(expected.size() == 8);
  REQUIRE(found.size() == 8);
  for (const auto& [update, cost] : expected) CHECK(found.at(update) == Approx(cost).epsilon(1e-5));
  std::filesystem::remove(whole.log_json);
}

TEST_CASE("each batch draws dropout of its own, whatever updates it is of") {
  const TrainingFolder folder;
  TrainOptions alone = folder.options();
  alone.model.dropout = 0.3;
  alone.learn_rate = 1e-30;  // parameters stay, so that costs differ by dropout alone
  alone.data.shuffle = "none";
  alone.disp_freq = "2u";
  alone.log_json = folder / "alone.json";
  TrainOptions together = alone;
  together.optimizer_delay = 2;
  together.disp_freq = "1u";
  together.log_json = folder / "together.json";
  folder.fresh(alone, "10u");
  folder.fresh(together, "5u");
  const auto expected = costs(alone.log_json), found = costs(together.log_json);
  REQUIRE(found.size() == 5);
  for (int64_t update = 2; update <= 5; ++update)  // the first line of `alone` is of one batch
    CHECK(found.at(update) == Approx(expected.at(2 * update)).epsilon(1e-6));
}

TEST_CASE("a run gives the same bits again, whatever the number of threads") {
  const TrainingFolder folder;
  TrainOptions o = rich_options(folder, GENERATE(from_range(compute_types())));
  o.data.mini_batch = 30;
  const Tensors first = folder.fresh(o, "6u");
  CHECK(folder.fresh(o, "6u") == first);
  for (const int threads : {2, 3}) {
    o.threads = threads;
    CHECK(folder.fresh(o, "6u") == first);
  }
  o.seed = 2;
  CHECK(folder.fresh(o, "6u") != first);
}

TEST_CASE("a device trains as the host does, again to the bit, and goes on where it stopped") {
  if (test_device() == nullptr) return;
  // In bf16 the host's own costs are up to 0.7% off those in float32 by then.
  const auto [precision, rounding] = GENERATE(values<std::pair<const char*, double>>({{"f32", 1e-4}, {"bf16", 1e-2}}));
  if (precision == std::string("bf16") && compute_types().back() != DType::kBF16) return;
  const TrainingFolder folder;
  TrainOptions here = folder.options();
  here.precision = precision;
  here.model.dropout = 0.1;
  here.exponential_smoothing = 0.05;
  here.disp_freq = "1u";
  here.log_json = folder / "here.json";
  TrainOptions there = here;
  there.devices = {"0"};
  there.log_json = folder / "there.json";
  folder.fresh(here, "10u");
  const Tensors tensors = folder.fresh(there, "10u");
  const auto expected = costs(here.log_json), found = costs(there.log_json);
  REQUIRE(found.size() == 10);
  // Of the same parameters; then Adam, whose first steps are signs of gradients, makes more of what rounding differs
  // in.
  CHECK(found.at(1) == Approx(expected.at(1)).epsilon(2e-4));
  for (const auto& [update, cost] : expected) CHECK(found.at(update) == Approx(cost).epsilon(rounding));
  set_thread_order(7);
  CHECK(folder.fresh(there, "10u") == tensors);
  set_thread_order(0);
  folder.fresh(there, "4u");
  CHECK(folder.further(there, "10u") == tensors);
}

TEST_CASE("float16 on a device trains as the host's float32 does; the loss scale falls where numbers end") {
  const TrainingFolder folder;
  TrainOptions here = folder.options();
  here.disp_freq = "1u";
  here.model.dropout = 0;
  here.log_json = folder / "here.json";
  TrainOptions there = here;
  there.precision = "f16";
  there.log_json = folder / "there.json";
  CHECK_THROWS_AS(folder.fresh(there, "1u"), UserError);
  if (test_device() == nullptr) return;
  there.devices = {"0"};
  folder.fresh(here, "6u");
  const Tensors tensors = folder.fresh(there, "6u");
  const auto expected = costs(here.log_json), found = costs(there.log_json);
  for (const auto& [update, cost] : expected) CHECK(found.at(update) == Approx(cost).epsilon(5e-3));
  CHECK(folder.state().at("skipped") == 0);
  CHECK(folder.state().at("loss-scaling") == nlohmann::json({65536.0, 6}));
  folder.fresh(there, "3u");
  CHECK(folder.further(there, "6u") == tensors);
  folder.further(here, "7u");
  CHECK(folder.state().at("loss-scaling") == nlohmann::json({1.0, -1}));
  folder.further(there, "9u");
  CHECK(folder.state().at("loss-scaling") == nlohmann::json({65536.0, 2}));

  there.learn_rate = 1e30;  // all is lost at the second update
  there.skip_limit = 3;
  std::filesystem::remove(there.log_json);
  CHECK_THROWS_WITH(folder.fresh(there, "100u"), "3 updates in a row were skipped; there is no good checkpoint yet");
  int falls = 0;
  for (const auto& line : read_lines(there.log_json)) falls += parse_json(line).at("kind") == "loss-scale";
  CHECK(falls == 16);  // from 2^16 to 1
}

// On a machine with at least four devices, or emulated ones.
TEST_CASE("several devices train as the host does, again to the bit, and go on where others stopped") {
  const Variable four("NMT_EMULATED_DEVICES", "4");
  if (test_device("3") == nullptr) return;
  const TrainingFolder folder;
  TrainOptions here = folder.options();
  here.model.dropout = 0;
  here.exponential_smoothing = 0.05;
  here.clip_norm = 1;
  here.optimizer_delay = 2;
  here.disp_freq = "1u";
  here.log_gradients = true;
  here.log_json = folder / "here.json";
  TrainOptions there = here;
  there.devices = {"3", "0", "1"};
  there.log_json = folder / "there.json";
  const Tensors host = folder.fresh(here, "4u");
  TrainOptions alone = there;
  alone.devices = {"0"};
  alone.log_json = folder / "alone.json";
  CHECK(difference(folder.fresh(alone, "4u"), host) < 0.02);  // Adam's first steps are signs of gradients
  const Tensors tensors = folder.fresh(there, "4u");
  const auto expected = costs(here.log_json), found = costs(there.log_json);
  REQUIRE(found.size() == 4);
  for (const auto& [update, cost] : expected) CHECK(found.at(update) == Approx(cost).epsilon(1e-4));
  for (const auto& [update, cost] : costs(alone.log_json)) CHECK(found.at(update) == Approx(cost).epsilon(1e-4));
  CHECK(difference(tensors, host) < 0.02);
  const auto norms_of = [](const std::string& log) {
    return parse_json(read_lines(log).front()).at("gradient_norms").get<std::map<std::string, double>>();
  };
  for (const auto& [part, norm] : norms_of(here.log_json))
    CHECK(norms_of(there.log_json).at(part) == Approx(norm).epsilon(1e-4));
  set_thread_order(7);
  CHECK(folder.fresh(there, "4u") == tensors);
  set_thread_order(0);
  folder.fresh(there, "2u");
  CHECK(folder.further(there, "4u") == tensors);
  folder.fresh(here, "2u");
  CHECK(difference(folder.further(there, "4u"), host) < 0.02);
  there.exchange_precision = "bf16";
  there.log_json = folder / "rounded.json";
  CHECK(folder.fresh(there, "4u") != tensors);
  for (const auto& [update, cost] : costs(there.log_json)) CHECK(cost == Approx(expected.at(update)).epsilon(1e-3));
  there.model.dropout = 0.1;
  there.data.mini_batch = 2;  // some devices have nothing to do
  CHECK((folder.fresh(there, "2u") == folder.fresh(there, "2u")));
}

TEST_CASE("devices that cannot work together are refused") {
  const Variable two("NMT_EMULATED_DEVICES", "2");
  if (test_device("1") == nullptr) return;
  const auto refusal = [](const std::vector<std::string>& devices) {
    return complaint_of([&] { backends_of(devices); });
  };
  CHECK(refusal({"0", "1"}).empty());
  CHECK(refusal({"0", "1", "0"}) == "--devices: 0 is given twice");
  CHECK(refusal({"0", "cpu"}) == "--devices: cpu stands alone");
  CHECK(refusal({"0", "2"}).find("there is no device 2") != std::string::npos);
}

#ifdef NMT_CUDA_EMULATION
TEST_CASE("a device that fails is named, with what it did and the last checkpoint") {
  const Variable two("NMT_EMULATED_DEVICES", "2");
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.devices = GENERATE(values<std::vector<std::string>>({{"0"}, {"1", "0"}}));
  folder.fresh(o, "1u");
  o.save_freq = "2u";
  for (const int64_t launches : {1, 300}) {
    INFO("kernel " << launches << " fails");
    cuda::emulation::fail_launch(launches);
    const std::string message = complaint_of<Error>([&] { folder.further(o, "100u"); });
    CHECK(message.find("emulated device") != std::string::npos);
    CHECK(message.find("the kernel fails, as it was told to") != std::string::npos);
    CHECK(message.find("the last good checkpoint is " + folder.state_path() + ", of update ") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  cuda::emulation::fail_launch(0);
  folder.further(o, "4u");
}
#endif

TEST_CASE("a run that goes on is the run that never stopped, from any update") {
  const TrainingFolder folder;
  TrainOptions o = rich_options(folder, GENERATE(from_range(compute_types())));
  o.skip_factor = 0.5;  // some updates are skipped
  o.disp_freq = "3u";
  o.log_json = folder / "whole.json";
  // An epoch has 15 batches and so 8 updates; 11 updates reach into the second.
  const Tensors whole = folder.fresh(o, "11u");
  auto state = folder.state();
  CHECK(state.at("skipped") > 0);
  const auto whole_costs = costs(o.log_json);
  o.log_json = folder / "parts.json";
  for (int stop = 1; stop < 11; ++stop) {
    std::filesystem::remove(o.log_json);
    folder.fresh(o, std::to_string(stop) + "u");
    CHECK(folder.further(o, "11u") == whole);
    auto parts = folder.state();
    for (auto* json : {&state, &parts}) {
      for (const char* clock : {"seconds", "looked"}) json->erase(clock);
      for (const char* sums : {"shown", "epoch"}) json->at(sums)[1] = json->at(sums)[2] = 0;  // seconds, too
    }
    CHECK(parts == state);
    CHECK(costs(o.log_json) == whole_costs);
  }
}

TEST_CASE("batches may change at a resume: the epoch begins again") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "20u");  // 15 updates an epoch
  CHECK(folder.state().at("position") == nlohmann::json({1, 0, 5}));
  o.data.mini_batch = 10;
  folder.further(o, "21u");
  CHECK(folder.state().at("position") == nlohmann::json({1, 0, 1}));
  folder.further(o, "26u");
  CHECK(folder.state().at("position") == nlohmann::json({2, 0, 0}));
  CHECK(folder.state().at("epochs") == 2);
}

TEST_CASE("an epoch is reported by its own batches") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.log_json = folder / "log.json";
  folder.fresh(o, "35u");  // two epochs of 15 updates, and a part of the third
  o.data.mini_batch = 10;
  folder.further(o, "3e");
  std::vector<std::string> reports;
  for (const auto& json : logged(o.log_json, "epoch")) reports.push_back(json.at("text"));
  REQUIRE(reports.size() == 3);
  CHECK(reports[0].starts_with("60 pairs in 15 batches, "));
  CHECK(reports[1].starts_with("60 pairs in 15 batches, "));
  CHECK(reports[2].starts_with("60 pairs in 6 batches, "));
}

TEST_CASE("the smoothed parameters follow their formula") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  std::vector<Tensors> steps;
  for (const char* after : {"1u", "2u", "3u"}) steps.push_back(folder.fresh(o, after));
  o.learn_rate = 1e-30;  // the start
  const Tensors start = folder.fresh(o, "1u");
  o.learn_rate = 0;
  o.exponential_smoothing = 0.72;
  const Tensors smoothed = with_prefix(folder.fresh(o, "3u"), "ema.");
  const Tensors served = read_tensors(o.model_path);
  REQUIRE(!smoothed.empty());
  for (const auto& [name, values] : smoothed) {
    CHECK(served.at(name) == values);
    for (size_t i = 0; i < values.size(); ++i) {
      double expected = start.at(name)[i];
      for (int t = 1; t <= 3; ++t) {
        const double weight = std::max(0.72, 9.0 / (t + 10));
        expected += weight * (static_cast<double>(steps[static_cast<size_t>(t - 1)].at(name)[i]) - expected);
      }
      REQUIRE(std::fabs(values[i] - expected) < 1e-6);
    }
  }
}

TEST_CASE("a long gradient is shortened, a short one is not") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.disp_freq = "1u";
  o.log_json = folder / "log.json";
  const Tensors plain = with_prefix(folder.fresh(o, "1u"), "adam.m.");
  const double norm = parse_json(read_lines(o.log_json).front()).at("gradient_norm");
  double sum = 0;
  for (const auto& [name, values] : plain)
    for (const float v : values) sum += static_cast<double>(v) * v;
  CHECK(std::sqrt(sum) * 10 == Approx(norm).epsilon(1e-5));  // beta1 is 0.9

  o.clip_norm = norm * 1.01;
  CHECK(with_prefix(folder.fresh(o, "1u"), "adam.m.") == plain);
  o.clip_norm = norm / 4;
  Tensors shortened = with_prefix(folder.fresh(o, "1u"), "adam.m.");
  for (auto& [name, values] : shortened)
    for (float& v : values) v *= 4;
  CHECK(difference(shortened, plain) < 1e-6);
}

TEST_CASE("an exploding update is skipped and counted; nothing of it stays") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  const Tensors one = folder.fresh(o, "1u");
  o.skip_factor = 1e-6;  // all but the first
  CHECK(folder.fresh(o, "4u") == one);
  CHECK(folder.state().at("skipped") == 3);
  CHECK(folder.state().at("updates") == 4);
  CHECK(folder.state().at("position") == nlohmann::json({0, 0, 4}));
  o.skip_factor = 0;
  CHECK(folder.further(o, "5u") != one);
  CHECK(folder.state().at("skipped") == 3);
  CHECK(folder.state().at("skipped-in-row") == 0);
}

TEST_CASE("the norms of the model's parts are those of the update shown") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.log_gradients = true;
  o.log_json = folder / "log.json";
  o.disp_freq = GENERATE("2u", "0.000001s");
  o.skip_factor = 1e-6;  // all but the first are skipped, and shown
  folder.fresh(o, "6u");
  int shown = 0;
  for (const auto& json : logged(o.log_json, "update")) {
    ++shown;
    double squares = 0;
    for (const auto& [part, norm] : json.at("gradient_norms").items())
      squares += norm.get<double>() * norm.get<double>();
    CHECK(std::sqrt(squares) == Approx(json.at("gradient_norm").get<double>()).epsilon(1e-6));
  }
  CHECK(shown == (o.disp_freq == "2u" ? 4 : 6));
}

TEST_CASE("NaN ends the run after the limit, the last good checkpoint is named and stays") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.skip_limit = 3;
  o.save_freq = "100u";
  o.log_json = folder / "log.json";
  folder.fresh(o, "2u");
  // Finite parameters whose products are not.
  folder.change([](nlohmann::json&, Tensors& tensors) {
    for (float& v : tensors.at("encoder.0.self_attention.query.weight")) v = 3e38f;
  });
  const std::string before = read_file(folder.state_path());
  std::string message;
  try {
    folder.further(o, "10u");
  } catch (const UserError&) {
    FAIL("a breakdown is no mistake of the user's");
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message ==
        "3 updates in a row were skipped; the last good checkpoint is " + folder.state_path() + ", of update 2");
  CHECK(read_file(folder.state_path()) == before);
  int warnings = 0;
  for (const auto& json : logged(o.log_json, "warning")) {
    ++warnings;
    CHECK(json.at("update") == 2 + warnings);
    CHECK(json.at("text").get<std::string>().find("nan") != std::string::npos);
  }
  CHECK(warnings == 3);
}

TEST_CASE("a model whose loss is no number is not saved over an earlier one, nor is its cost a number") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  o.learn_rate = 1e4;  // numbers end after an update or a few
  o.lr_warmup = 1;
  o.adam = {0.9, 0, 1e-30};
  o.skip_limit = 4;
  o.save_freq = "1u";
  o.disp_freq = "1u";
  o.log_json = folder / "log.json";
  const std::string message = complaint_of<Error>([&] { folder.fresh(o, "50u"); });
  const int64_t updates = folder.state().at("updates");
  CHECK(message == fmt::format("4 updates in a row were skipped; the last good checkpoint is {}, of update {}",
                               folder.state_path(), updates));
  CHECK(folder.state().at("skipped") == 0);
  CHECK(!std::filesystem::exists(folder / fmt::format("m.iter{}.safetensors", updates + 1)));
  int without = 0;
  for (const auto& json : logged(o.log_json, "update")) {
    CHECK(json.at("cost").is_null() == (json.at("update") > updates));
    without += json.at("cost").is_null() ? 1 : 0;
  }
  CHECK(without == 3);  // the fourth ends the run

  // Nor at the end.
  const std::string before = read_file(folder.state_path());
  folder.further(o, fmt::format("{}u", updates + 2));
  CHECK(read_file(folder.state_path()) == before);
}

TEST_CASE("the plan of the first update is shown whatever a training left") {
  const TrainingFolder folder;
  TrainOptions o = folder.options();
  folder.fresh(o, "2u");
  o.seed = 2;
  o.dump_plan = true;
  CHECK_NOTHROW(dump_plan(o));
  CHECK(folder.state()["updates"] == 2);
}
